package command

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsPatience bounds one question to a name server, which is asked over TCP: no answer is
// lost or cut there.
const dnsPatience = 5 * time.Second

// resolver finds the addresses of hosts as this machine does, its /etc/hosts included, or
// by the name server at an address, with or without a port.
func resolver(server string) (func(ctx context.Context, host string) ([]netip.Addr, error), error) {
	if server == "" {
		return func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}, nil
	}
	if address, err := netip.ParseAddr(server); err == nil {
		server = netip.AddrPortFrom(address, 53).String()
	}
	if _, err := netip.ParseAddrPort(server); err != nil {
		return nil, errors.New("--dns takes the address of a name server, as in 1.1.1.1")
	}
	return func(ctx context.Context, host string) (found []netip.Addr, err error) {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
			addresses, err := lookUp(ctx, server, host, kind)
			if err != nil {
				return nil, err
			}
			found = append(found, addresses...)
		}
		return found, nil
	}, nil
}

// lookUp asks a name server for the addresses of a host of one kind (RFC 1035).
func lookUp(ctx context.Context, server, host string, kind dnsmessage.Type) ([]netip.Addr, error) {
	name, err := dnsmessage.NewName(host + ".")
	if err != nil {
		return nil, &net.DNSError{Err: "no name of a host", Name: host, IsNotFound: true}
	}
	question := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: kind, Class: dnsmessage.ClassINET}},
	}
	packed, err := question.Pack()
	if err != nil {
		return nil, err
	}
	reply, err := askName(ctx, server, packed)
	if err != nil {
		return nil, &net.DNSError{Err: "no answer", Name: host, Server: server}
	}
	var answer dnsmessage.Message
	if err := answer.Unpack(reply); err != nil || answer.ID != question.ID {
		return nil, &net.DNSError{Err: "no answer that can be read", Name: host, Server: server}
	}
	switch answer.RCode {
	case dnsmessage.RCodeSuccess:
	case dnsmessage.RCodeNameError:
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: server, IsNotFound: true}
	default:
		return nil, &net.DNSError{Err: fmt.Sprint(answer.RCode), Name: host, Server: server}
	}
	var found []netip.Addr
	for _, record := range answer.Answers { // those of the names that it leads to, too
		switch body := record.Body.(type) {
		case *dnsmessage.AResource:
			found = append(found, netip.AddrFrom4(body.A))
		case *dnsmessage.AAAAResource:
			found = append(found, netip.AddrFrom16(body.AAAA))
		}
	}
	return found, nil
}

// askName sends a question over TCP, where its length stands before each message.
func askName(ctx context.Context, server string, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsPatience)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	deadline, _ := ctx.Deadline()
	_ = connection.SetDeadline(deadline)
	if _, err := connection.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)); err != nil {
		return nil, err
	}
	var size uint16
	if err := binary.Read(connection, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	reply := make([]byte, size)
	_, err = io.ReadFull(connection, reply)
	return reply, err
}
