package lightning

import (
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2/bech32"
	"github.com/stretchr/testify/require"
)

// Examples of BOLT 11.
const (
	exampleHash = "0001020304050607080900010203040506070809000102030405060708090102"
	exampleHead = "pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypq"
	donation    = "lnbc1" + exampleHead + "dpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6twvus8g6rfwvs8qun0dfjkxaq8rkx3yf5tcsyz3d73gafnh3cax9rn449d9p5uxz9ezhhypd0elx87sjle52x86fux2ypatgddc6k63n7erqz25le42c4u4ecky03ylcqca784w"
	coffee      = "lnbc2500u1" + exampleHead + "dq5xysxxatsyp3k7enxv4jsxqzpuaztrnwngzn3kdzw5hydlzf03qdgm2hdq27cqv3agm2awhz5se903vruatfhq77w3ls4evs3ch9zw97j25emudupq63nyw24cg27h2rspfj9srp"
	nonsense    = "lnbc2500u1" + exampleHead + "dpquwpc4curk03c9wlrswe78q4eyqc7d8d0xqzpuyk0sg5g70me25alkluzd2x62aysf2pyy8edtjeevuv4p2d5p76r4zkmneet7uvyakky2zr4cusd45tftc9c5fh0nnqpnl2jfll544esqchsrny"
	testNetwork = "lntb20m1pvjluezhp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqfpp3x9et2e20v6pu37c5d9vax37wxq72un98kmzzhznpurw9sgl2v0nklu2g4d0keph5t7tj9tcqd8rexnd07ux4uv2cjvcqwaxgj7v4uwn5wmypjd5n69z2xm3xgksg28nwht7f6zspwp3f9t"
	routed      = "lnbc20m1" + exampleHead + "hp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqsfpp3qjmp7lwpagxun9pygexvgpjdc4jdj85fr9yq20q82gphp2nflc7jtzrcazrra7wwgzxqc8u7754cdlpfrmccae92qgzqvzq2ps8pqqqqqqpqqqqq9qqqvpeuqafqxu92d8lr6fvg0r5gv0heeeqgcrqlnm6jhphu9y00rrhy4grqszsvpcgpy9qqqqqqgqqqqq7qqzqj9n4evl6mr5aj9f58zp6fyjzup6ywn3x6sk8akg5v4tgn2q8g4fhx05wf6juaxu9760yp46454gpg5mtzgerlzezqcqvjnhjh8z3g2qqdhhwkj"
	beans       = "lnbc25m1" + exampleHead + "dq5vdhkven9v5sxyetpdeessp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygs9q5sqqqqqqqqqqqqqqqpqsq67gye39hfg3zd8rgc80k32tvy9xk2xunwm5lzexnvpx6fd77en8qaq424dxgt56cag2dpt359k3ssyhetktkpqh24jqnjyw6uqd08sgptq44qu"
)

// ignored has fields of lengths that must be skipped.
var ignored = strings.TrimSuffix(beans, "67gye39hfg3zd8rgc80k32tvy9xk2xunwm5lzexnvpx6fd77en8qaq424dxgt56cag2dpt359k3ssyhetktkpqh24jqnjyw6uqd08sgptq44qu") +
	"2qrqqqfppn" + strings.Repeat("q", 32) + "ppn" + strings.Repeat("q", 51) + "pp4" + strings.Repeat("q", 53) + "hpn" + strings.Repeat("q", 51) +
	"hp4" + strings.Repeat("q", 53) + "spn" + strings.Repeat("q", 51) + "sp4" + strings.Repeat("q", 53) + "np5" + strings.Repeat("q", 52) +
	"npk" + strings.Repeat("q", 54) + "2jxxfsnucm4jf4zwtznpaxphce606fvhvje5x7d4gw7n73994hgs7nteqvenq8a4ml8aqtchv5d9pf7l558889hp4yyrqv6a7zpq9fgpskqhza"

func TestParseRequestReadsExamples(t *testing.T) {
	at := time.Unix(1_496_314_658, 0)
	for name, c := range map[string]struct {
		text          string
		network       string
		millisatoshis int64
		expiry        time.Duration
	}{
		"any amount":            {donation, "bc", 0, time.Hour},
		"within a minute":       {coffee, "bc", 250_000_000, time.Minute},
		"in UTF-8":              {nonsense, "bc", 250_000_000, time.Minute},
		"of the test network":   {testNetwork, "tb", 2_000_000_000, time.Hour},
		"with a route":          {routed, "bc", 2_000_000_000, time.Hour},
		"with features":         {beans, "bc", 2_500_000_000, time.Hour},
		"in capitals":           {strings.ToUpper(beans), "bc", 2_500_000_000, time.Hour},
		"with fields to ignore": {ignored, "bc", 2_500_000_000, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseRequest(c.text)
			require.NoError(t, err)
			require.Equal(t, request{text: strings.ToLower(c.text), network: c.network, millisatoshis: c.millisatoshis, hash: exampleHash, at: at, expireAt: at.Add(c.expiry)}, got)
		})
	}
}

func TestParseRequestRefusesInvalidExamples(t *testing.T) {
	for name, text := range map[string]string{
		"checksum":             strings.TrimSuffix(nonsense, "y") + "t",
		"no separator":         strings.TrimPrefix(nonsense, "lnbc2500u1"),
		"mixed case":           "LNBC2500u" + strings.TrimPrefix(nonsense, "lnbc2500u"),
		"signature":            "lnbc2500u1" + exampleHead + "dq5xysxxatsyp3k7enxv4jsxqzpuaxtrnwngzn3kdzw5hydlzf03qdgm2hdq27cqv3agm2awhz5se903vruatfhq77w3ls4evs3ch9zw97j25emudupq63nyw24cg27h2rspk28uwq",
		"too short":            "lnbc1" + exampleHead + "dpl2pkx2ctnv5sxxmmwwd5kgetjypeh2ursdae8g6na6hlh",
		"multiplier":           "lnbc2500x1" + exampleHead + "dq5xysxxatsyp3k7enxv4jsxqzpujr6jxr9gq9pv6g46y7d20jfkegkg4gljz2ea2a3m9lmvvr95tq2s0kvu70u3axgelz3kyvtp2ywwt0y8hkx2869zq5dll9nelr83zzqqpgl2zg",
		"under a millisatoshi": "lnbc2500000001p1" + exampleHead + "dq5xysxxatsyp3k7enxv4jsxqzpu7hqtk93pkf7sw55rdv4k9z2vj050rxdr6za9ekfs3nlt5lr89jqpdmxsmlj9urqumg0h9wzpqecw7th56tdms40p2ny9q4ddvjsedzcplva53s",
	} {
		_, err := parseRequest(text)
		require.ErrorIs(t, err, errRequest, name)
	}
}

// Each example has a right checksum, so that only its own mistake is refused.
func TestParseRequestChecksSignedParts(t *testing.T) {
	prefix, data, err := bech32.DecodeNoLimit(coffee)
	require.NoError(t, err)
	encode := func(prefix string, data []byte) string {
		text, err := bech32.Encode(prefix, data)
		require.NoError(t, err)
		return text
	}
	_, err = parseRequest(encode(prefix, data))
	require.NoError(t, err)
	with := func(at int, digit byte) []byte {
		changed := append([]byte{}, data...)
		changed[(at+len(data))%len(data)] = digit
		return changed
	}
	sm, err := bech32.EncodeM(prefix, data)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"the checksum of bech32m":     sm,
		"no payment hash":             encode(prefix, with(7, 2)),
		"a field past the end":        encode(prefix, with(8, 31)),
		"a recovery flag of 4":        encode(prefix, with(-1, 4)),
		"an amount beyond all money":  encode("lnbc999999999999999", data),
		"an amount with a zero first": encode("lnbc02500u", data),
		"no data":                     encode(prefix, nil),
	} {
		_, err := parseRequest(text)
		require.ErrorIs(t, err, errRequest, name)
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{donation, coffee, testNetwork, routed, ignored, "lnbc1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRequest(text)
		if err != nil {
			return
		}
		require.Len(t, r.hash, 64)
		require.GreaterOrEqual(t, r.millisatoshis, int64(0))
		require.False(t, r.expireAt.Before(r.at))
		same, err := parseRequest(strings.ToUpper(text))
		require.NoError(t, err)
		require.Equal(t, r, same)
	})
}
