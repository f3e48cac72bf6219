// Command sdk is a bare server of the official MCP library, without sessions: its one tool answers what the file of its first
// argument holds, the result of tools/call as JSON. It prints its address as one line and runs until its standard input closes.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if err := serve(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func serve(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	result := new(mcp.CallToolResult)
	if err := json.Unmarshal(data, result); err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	tool := &mcp.Tool{Name: "first_42_sponsor", InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(tool, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return result, nil })
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(listener, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
}
