package command

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/inspect"
)

func TestFlagsOfALiveCheckBelongToIt(t *testing.T) {
	for _, flag := range [][]string{{"--json"}, {"--dns", "192.0.2.1"}, {"--address", "localhost:1"}} {
		_, err := execute(t, checkCommand(), append(flag, "--config", configuration(t, `{}`))...)
		require.ErrorContains(t, err, flag[0]+" belongs to --live")
	}
	_, err := execute(t, checkCommand(), "--live", "--dns", "a name", "--config", configuration(t, `{}`))
	require.EqualError(t, err, "--dns takes the address of a name server, as in 1.1.1.1")
}

func TestTheFindingsOfALiveCheckAreJSONForMonitoring(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []desk.Inspection{}})
	out, err := api.run(checkCommand(), "--live", "--json", "--config", configuration(t, `{"None":true}`))
	require.ErrorContains(t, err, "has no pay_offer directive")
	require.Regexp(t, `^Error: \S+ has no pay_offer directive\n$`, out, "nothing that could be read as findings")
	require.Empty(t, api.asked)

	out, err = api.run(checkCommand(), "--live", "--json", "--config", configuration(t, `{}`))
	require.ErrorContains(t, err, "there is something to mend: ")
	var report inspect.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.Equal(t, "one", report.Offers[0].ID)
	require.Equal(t, inspect.NotLoaded, report.Findings[0].Code)
	require.Regexp(t, `^POST /pay_offer/inspection$`, api.asked[0])
	require.Regexp(t, `^\{"token":"[0-9a-f]{32}"\}$`, api.bodies[0])
	for _, body := range api.bodies {
		require.Equal(t, api.bodies[0], body)
		require.NotContains(t, out, body[10:42], "the token is told to nobody else")
	}
}

func TestFindingsArePrintedForPeople(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []desk.Inspection{}})
	out, err := api.run(checkCommand(), "--live", "--config", configuration(t, `{}`))
	require.ErrorContains(t, err, "there is something to mend: ")
	require.Regexp(t, `(?m)^http://localhost:9: its addresses were not asked for\n`+
		`not-loaded \(one\): the running server has no offer one\n  mend: Load this configuration with 'caddy reload'`, out)
}

func TestTheSitesOfADirectiveAreFound(t *testing.T) {
	const config = `{"apps": {"http": {"servers": {"srv0": {"listen": ["127.0.0.1:8402", ":443"], "routes": [
		{"match": [{"host": ["pay.example.org"]}], "handle": [{"handler": "subroute", "routes": [
			{"match": [{"path": ["/shop/*"]}], "handle": [{"handler": "subroute", "routes": [
				{"handle": [{"handler": "rewrite", "strip_path_prefix": "/shop"}]},
				{"handle": [{"handler": "pay_offer", "base_url": "https://pay.example.org/"}]}]}]},
			{"handle": [{"handler": "pay_offer", "base_url": "https://other.example.org"}]}]}]},
		{"handle": [{"handler": "pay_offer", "base_url": "{env.PAY_OFFER_TEST_BASE}"}]}]}}}}}`
	t.Setenv("PAY_OFFER_TEST_BASE", "https://third.example.org")
	listen := []string{"127.0.0.1:8402", ":443"}
	require.Equal(t, map[string][]inspect.Site{
		"https://pay.example.org":   {{Hosts: []string{"pay.example.org"}, Listen: listen, Prefix: "/shop"}},
		"https://other.example.org": {{Hosts: []string{"pay.example.org"}, Listen: listen}},
		"https://third.example.org": {{Listen: listen}},
	}, findSites([]byte(config)))
	require.Empty(t, findSites([]byte(`[]`)))
}

func TestANameServerIsAskedOverTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			answerName(connection)
		}
	}()
	resolve, err := resolver(listener.Addr().String())
	require.NoError(t, err)

	found, err := resolve(t.Context(), "pay.example.org")
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8::7")}, found)

	var named *net.DNSError
	_, err = resolve(t.Context(), "none.example.org")
	require.ErrorAs(t, err, &named)
	require.True(t, named.IsNotFound)
	for _, host := range []string{"broken.example.org", "another.example.org", "silent.example.org"} {
		_, err = resolve(t.Context(), host)
		require.ErrorAs(t, err, &named, host)
		require.False(t, named.IsNotFound, host)
	}
	_, err = resolve(t.Context(), "")
	require.Error(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = resolve(ended, "pay.example.org")
	require.Error(t, err)

	resolve, err = resolver("")
	require.NoError(t, err)
	found, err = resolve(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	require.Len(t, found, 1)
}

// answerName answers one question over TCP.
func answerName(connection net.Conn) {
	defer connection.Close()
	var size uint16
	var m dnsmessage.Message
	_ = binary.Read(connection, binary.BigEndian, &size)
	text := make([]byte, size)
	_, _ = io.ReadFull(connection, text)
	if m.Unpack(text) != nil {
		return
	}
	name := m.Questions[0].Name
	header := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}
	switch name.String() {
	case "pay.example.org.":
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte{203, 0, 113, 7}}}}
		if m.Questions[0].Type == dnsmessage.TypeAAAA {
			m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr("2001:db8::7").As16()}}}
		}
	case "none.example.org.":
		m.RCode = dnsmessage.RCodeNameError
	case "broken.example.org.":
		m.RCode = dnsmessage.RCodeServerFailure
	case "another.example.org.":
		m.ID++
	default:
		return
	}
	reply, _ := m.Pack()
	_, _ = connection.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
}
