package diagnose

import (
	"cmp"
	"strings"
)

// Code names a problem, and says what it means and how to fix it. Names are stable,
// because monitoring depends on them.
type Code struct{ Name, Means, Fix string }

var (
	NotRunning = Code{"not-running", "No running server answers at the admin API, so its ledger, webhooks and settings are not checked.",
		"Start the server, or name its admin API with --address. If the configuration says 'admin off', write 'admin localhost:2019' instead."}
	Demo = Code{"demo", "The running server runs a demo of this offer: its money is fake. Nothing else is checked.",
		"For a demo there is nothing to do. To take money, write your own addresses into the Caddyfile, the card checkout first, and restart the server."}
	SettingsDiffer = Code{"settings-differ", "The running server does not have this offer, or publishes other settings than this configuration in this environment.",
		"Load the configuration with 'caddy reload'. If a variable has changed, restart the server, because a reload does not read the environment again. Run this command with the environment of the server."}
	Unreachable = Code{"unreachable", "The server does not answer at the public address, or a proxy there does not reach it.",
		"Compare base_url with the address of the site block. Check the DNS record, the firewall, the address that the server listens at (bind), and the upstream of the proxy in front. Some routers do not let a machine reach its own public address: check again from another network."}
	CertificateInvalid = Code{"certificate-invalid", "Clients do not trust the certificate of the host, or it has expired.",
		"Let Caddy get a certificate (ports 80 and 443 must reach it; its log says 'obtain' and 'renew'), or install one for this name with its whole chain at the proxy in front."}
	OtherServer = Code{"other-server", "A server answers at the public address, and it is not this one or does not serve this offer.",
		"Check the DNS record and the upstream of the proxy in front. Write the host of base_url as the address of the site block, and move the directive out of handle_path."}
	OtherHandler = Code{OtherServer.Name, OtherServer.Means,
		"Compare base_url with the address of the site block. If this Caddy answers there, another handler of it does: move pay_offer out of 'handle /path/*', 'handle_path' and matchers that leave out paths of the offer, and let basic_auth leave them out. If another Caddy answers, check the DNS record and the upstream of the proxy in front."}
	SharedPort = Code{OtherServer.Name, OtherServer.Means,
		"Two servers share the public address, and each has a ledger of its own. Stop one ('ss -ltnp' lists processes that listen at one port), or give both the same ledger and storage (docs/guides/high-availability)."}
	HeadersCut = Code{"headers-cut", "A proxy in front refuses POST, or drops headers of the HTTP 402 quote: software cannot pay.",
		"Let the proxy in front pass POST to /v1/ and /mcp without a challenge for browsers, and every header, such as WWW-Authenticate and PAYMENT-REQUIRED. Give it a larger buffer ('proxy_buffer_size 8k;' in nginx)."}
	HeadersChanged = Code{"headers-changed", "Headers of a page or a quote were replaced on the way: browsers refuse its style or script, or keep what they must not.",
		"The likely cause is a 'header' block of the site: with one '-Name', '>Name' or 'defer' in it, Caddy applies the whole block last. Write that line as a directive of its own, such as 'header -Server' (docs/guides/existing-site). Else a proxy in front replaces them."}
	LinkBroken = Code{"link-broken", "An address that the offer publishes, or that receives its webhooks, does not answer as it should.",
		"For a checkout, correct its option. For the page of the site, serve it at site_url with pay_offer_page. For a path of the offer, find what answers in front of the server."}
	GateOpen = Code{"gate", "The page at which payers arrive at a gate (its start) is free, or does not open for a payer.",
		"Write start with the host of the gate's site block, and inside the matcher of pay_offer_gate and of the handle around it: '/course/*' leaves out /course, so write '@course path /course /course/*'. A page outside is free, and gets links with unused codes, which its application may log."}
	GateShut = Code{GateOpen.Name, GateOpen.Means,
		"After 404, put an index page, such as index.html, into the folder of start, or write the path of a page that exists into start, such as 'start /course/welcome.html'. After 402, let start name the host of the gate, and let a proxy or cache in front pass the query, Set-Cookie and Cookie."}
	ChainID = Code{"chain-id", "The RPC endpoint answers for another chain, or its token is not the one that payers sign for.",
		"Name an endpoint of the rail's network in rpc. If it is one, turn the rail off until this plugin knows the new token."}
	RPCFailing = Code{"rpc-failing", "The RPC endpoint gives no usable answer, so payments are seen late or never.",
		"Check its address, the firewall, and the key and the quota at its provider, or name another endpoint in rpc; two hosts are best."}
	FacilitatorNetwork = Code{"facilitator-network", "The facilitator does not settle on the rail's network.",
		"Name a facilitator that does, or choose another network."}
	FacilitatorCareless = Code{"facilitator-careless", "The facilitator accepts a payer without money: it does not check balances before it settles. It is used.",
		"Read the chain with rpc, so that no payment depends only on the facilitator's report, or name another facilitator."}
	FacilitatorFailing = Code{"facilitator-failing", "The facilitator gives no usable answer, or refuses the key or a payment, so software cannot pay.",
		"Do what its text says. For status_401, status_403 or key_unusable, set key_id and key_secret, or header, to a key that may verify and settle. Else see the facilitator's status page, and name a second facilitator below the first."}
	PriceSource = Code{"price-source", "A price source of Bitcoin gives no usable answer.",
		"Check that this machine reaches its host. One dead source does no harm: remove it from rates of bitcoin. Lightning without bitcoin uses the default sources."}
	WalletFailing = Code{"wallet-failing", "The Lightning wallet gives no invoice, so the rail cannot be paid.",
		"Check the address at the wallet's provider, and whether the wallet takes the price: providers limit amounts."}
	WalletSilent = Code{"wallet-silent", "The Lightning wallet does not say when invoices are paid: you enter each payment.",
		"Enter payments with 'caddy pay-offer record', or use a wallet whose provider supports verify (LUD-21; docs/guides/lightning)."}
	CardPrices = Code{"card-prices", "The link's prices cannot be read, so card payments in other currencies open no gate.",
		"Set api_key to a key that may read Payment Links and Prices (docs/guides/stripe). If you have a gate, until then give those who paid a pass ('caddy pay-offer pass')."}
	CardLink = Code{"card-link", "A checkout of another payment link of the same Stripe account was paid. It is not counted and opens no gate.",
		"If that link sells this offer, write it into payment_link (docs/guides/stripe). If it sells something else, there is nothing to do."}
	WebhookOff = Code{"webhook-off", "The webhook's secret is empty, so deliveries are refused.",
		"Set the variable and restart the server, because a reload does not read the environment again. If the secret is in a file, set it there and reload with --force."}
	WebhookUnverified = Code{"webhook-unverified", "Deliveries to the webhook are refused: they are not signed with the configured secret. They may be forged.",
		"Copy the signing secret of this webhook address again from the provider, and have the provider send the last delivery again."}
	RailUnobserved = Code{"rail-unobserved", "The running server cannot read the payments of a rail.",
		"Search the server's log for the rail; for ledger_unavailable, search it for 'ledger'. Missed payments are read later."}
	LedgerLost = Code{"ledger-lost", "The ledger's file was deleted, moved or replaced while the server runs. Payments are refused; the data is saved in another file.",
		"Stop the server, move the saved file to another folder and every file at the ledger's path away, copy the saved file back with 'caddy pay-offer ledger restore --create <saved file>' as the user of the server, and start the server (docs/guides/backup)."}
	LedgerDamaged = Code{"ledger-damaged", "The ledger's file is damaged. Payments are refused.",
		"Stop the server, move the file and its -wal away, restore the newest backup and start the server (docs/guides/backup): sources are read again. Replace a disk that fails."}
	LedgerUnwritable = Code{"ledger-unwritable", "The server cannot write to the ledger. Payments are refused.",
		"Do what the reason says. If it says nothing to do, read the log of the server, and of the database."}
	NotificationFailing = Code{"notification-failing", "An endpoint did not accept the last notification. It is sent again.",
		"Send it a test with 'caddy pay-offer announcements --test', and correct the endpoint or its options (docs/guides/notifications)."}
	ClockWrong = Code{"clock-wrong", "The clock of this machine is off by more than a minute.",
		"Set the clock, and keep it right by NTP."}
)

// of adds to the fix what to check for the rail of a name.
func (c Code) of(rail string) Code {
	kind, _, _ := strings.Cut(rail, "-")
	c.Fix = cmp.Or(map[string]string{
		"card": "Check api_key, and that Stripe sends the events that docs/guides/stripe lists.",
		"btc":  "Check the endpoints of esplora.", "usdc": "Check the endpoints of rpc.",
		"lightning": "Check the wallet at its provider.",
	}[kind], "Check its option token.") + " " + c.Fix
	return c
}

// Codes are all codes, in the order of a report: fix the first one first.
var Codes = []Code{
	NotRunning, Demo, LedgerLost, LedgerDamaged, LedgerUnwritable, SettingsDiffer, Unreachable,
	CertificateInvalid, OtherServer, HeadersCut, HeadersChanged, LinkBroken, GateOpen, ChainID, RPCFailing,
	FacilitatorNetwork, FacilitatorCareless, FacilitatorFailing, PriceSource, WalletFailing, WalletSilent, CardPrices, CardLink, WebhookOff,
	WebhookUnverified, RailUnobserved, NotificationFailing, ClockWrong,
}
