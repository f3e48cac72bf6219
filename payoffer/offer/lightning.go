package offer

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// RailLightning is the name of the Lightning rail and the scheme of its URI. LightningAsset is the asset of its receipts.
const RailLightning, LightningAsset = "lightning", "BTC"

func init() { reserved = append(reserved, RailLightning) }

// walletUser is the local part of a Lightning address (LUD-16).
var walletUser = regexp.MustCompile(`^[a-z0-9_.+-]{1,64}$`)

// Lightning takes bitcoin over the Lightning network at an address of a wallet. The wallet makes an invoice for each payment.
type Lightning struct {
	user, host string
	amount     USD
}

// NewLightning makes the rail for a Lightning address (LUD-16), such as alice@wallet.example.
func NewLightning(address string, amount USD) (*Lightning, error) {
	user, host, _ := strings.Cut(strings.ToLower(address), "@")
	l := &Lightning{user, host, amount}
	u, err := ParseURL(l.ParametersURL())
	if err != nil || u.Host != host || !walletUser.MatchString(user) || !l.IsLocal() && !strings.Contains(host, ".") {
		return nil, errors.New("this is not a Lightning address; write it as the wallet shows it, such as alice@wallet.example (no LNURL, invoice or offer)")
	}
	return l, nil
}

// Address is the Lightning address.
func (l *Lightning) Address() string { return l.user + "@" + l.host }

// IsLocal reports whether the wallet is on this machine. It may then use plain http.
func (l *Lightning) IsLocal() bool { return IsLoopback(Hostname("://" + l.host)) }

// ParametersURL is where the wallet says how it is paid (LUD-16).
func (l *Lightning) ParametersURL() string {
	scheme := "https://"
	if l.IsLocal() {
		scheme = "http://"
	}
	return scheme + l.host + "/.well-known/lnurlp/" + l.user
}

func (*Lightning) Name() string                 { return RailLightning }
func (*Lightning) Test() bool                   { return false } // only invoices of the main network are accepted
func (l *Lightning) Account() string            { return RailLightning + "/" + l.Address() }
func (*Lightning) Source() Source               { return SourceProvider }
func (*Lightning) TransactionURL(string) string { return "" } // payments are not public

// Face says that a button makes the invoice.
func (*Lightning) Face() Face {
	name := Phrase{Key: "rail.lightning.name"}
	return Face{
		Icon: "M13 3L5 14h6l-1 7 8-11h-6z",
		Name: name, Way: name, Fee: Phrase{Key: "rail.lightning.fee"}, Hint: Phrase{Key: "rail.lightning.time"},
		Act: Phrase{Key: "rail.lightning.act"}, Note: Phrase{Key: "rail.lightning.note"},
	}
}

// Methods is the address, and where an invoice is made for one payment. Without a rate there is no amount.
func (l *Lightning) Methods(o *Offer, live Live) []Method {
	m := Method{
		Rail: RailLightning, Scheme: RailLightning, Title: l.amount.String() + " USD in bitcoin over Lightning",
		AmountUSD: l.amount, Network: OffChain, Asset: LightningAsset, Symbol: LightningAsset, PayTo: l.Address(),
		InvoiceURL: o.URL(PagePath(RailLightning)),
	}
	if live.Satoshis <= 0 {
		m.Reason, m.Why = "there is no current exchange rate; try again in a minute", Phrase{Key: "rail.btc.noRate"}
		return []Method{m}
	}
	m.Available, m.URI, m.AmountAtomic = true, RailLightning+":"+l.Address(), strconv.FormatInt(live.Satoshis, 10)
	// Only an invoice says who paid: a page does not show the address.
	m.Facts = []Fact{{Label: "send", Value: coins(FormatDecimal(live.Satoshis, 8), LightningAsset)}}
	return []Method{m}
}
