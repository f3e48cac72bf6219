package inspect

// The codes of findings. They are stable: monitoring goes by them.
const (
	NotRunning      = "not-running"
	NotLoaded       = "not-loaded"
	PlaysDemo       = "demo"
	SettingsDiffer  = "settings-differ"
	BaseURLShared   = "base-url-shared"
	DNSUnresolved   = "dns-unresolved"
	NotPublic       = "not-public"
	LoopbackOnly    = "loopback-only"
	Unreachable     = "unreachable"
	BadCertificate  = "certificate-invalid"
	OldCertificate  = "certificate-expiring"
	BaseURLMismatch = "base-url-mismatch"
	PrefixStripped  = "prefix-stripped"
	OtherServer     = "other-server"
	PostRefused     = "post-refused"
	HeadersCut      = "headers-cut"
	AnswerAltered   = "answer-altered"
	AddressesHidden = "client-addresses-hidden"
	LinkBroken      = "link-broken"
	ChainID         = "chain-id"
	TokenMismatch   = "token-mismatch"
	RPCFailing      = "rpc-failing"
	NetworkRefused  = "facilitator-network"
	KeyRefused      = "facilitator-key"
	Careless        = "facilitator-careless"
	Failing         = "facilitator-failing"
	PriceSource     = "price-source"
	HookOff         = "webhook-off"
	HookUnverified  = "webhook-unverified"
	HookMalformed   = "webhook-malformed"
	RailUnobserved  = "rail-unobserved"
	LedgerLost      = "ledger-lost"
	LedgerRefuses   = "ledger-unwritable"
	DiskLow         = "disk-low"
	ClockWrong      = "clock-wrong"
)

// Code says what a code means, and how to mend what it finds.
type Code struct{ Name, Means, Mend string }

// Codes are all of them, in the order in which findings are told: what stands first is
// mended first.
var Codes = []Code{
	{
		NotRunning, "No running server answers at the admin API, so that nobody can say what only the server knows: its ledger, its webhooks, its disk, and whether the public address leads to it.",
		"Start the server, or name its admin API with --address; if the configuration says 'admin off', write 'admin localhost:2019' instead.",
	},
	{
		NotLoaded, "A server runs, and it does not have this offer.",
		"Load this configuration with 'caddy reload', or check the configuration that the server was started with.",
	},
	{
		PlaysDemo, "The running server plays a demo of this offer: its checkout, its facilitator and its money are pretend. Nothing else is looked at.",
		"For a demo there is nothing to do. To take money, set addresses of your own in the environment of the server, CARD_URL first, and restart it; then check again.",
	},
	{
		SettingsDiffer, "The running server has other settings for the offer than this configuration gives in this environment.",
		"Load the configuration with 'caddy reload', or restart the server where a variable has changed, for a reload does not read the environment anew; or run this command with the environment of the server: a variable that is not set here makes another offer, or switches a secret off.",
	},
	{
		BaseURLShared, "Two offers have the same base_url, so that one of them cannot be reached and both claim one identity.",
		"Give each offer a base_url of its own, with a site block for it.",
	},
	{
		DNSUnresolved, "The name of the host has no address.",
		"Add an A record, and an AAAA record if the server has IPv6, with the server's public address, and look for a typing error in the name.",
	},
	{
		NotPublic, "The name of the host leads to an address that only this machine or its network reaches.",
		"Set the DNS record to the server's public address; if it is a line of this machine's /etc/hosts, ask a public name server with --dns 1.1.1.1.",
	},
	{
		LoopbackOnly, "Nobody answers at the public address, and the server listens on this machine alone.",
		"Set BIND, or default_bind in the Caddyfile, to the address of a network, as in 0.0.0.0; if a proxy in front is to pass requests on, start it.",
	},
	{
		Unreachable, "Nobody answers at the public address, or a proxy does that does not reach the server.",
		"Open the port in the firewall and the router, have a proxy in front pass requests to the address that the server listens at, and check again from another network: some routers do not let a machine reach its own public address.",
	},
	{
		BadCertificate, "Clients do not trust the certificate of the host.",
		"Let Caddy get one (ports 80 and 443 must reach it), or install one for this very name with its whole chain at the proxy in front.",
	},
	{
		OldCertificate, "Less than a sixth of the certificate's life is left. Caddy renews with a third left, so that renewal has failed for a while.",
		"Look for 'obtain' and 'renew' in the server's log: mostly port 80 or 443 does not reach it any more.",
	},
	{
		BaseURLMismatch, "The site block of the directive is for another host than base_url, so that requests for base_url do not get to the offer.",
		"Write the host of base_url as the address of the site block, or correct base_url.",
	},
	{
		PrefixStripped, "The directive stands behind a prefix of the path that is taken away, as in handle_path, while every document names its addresses without one.",
		"Move the directive out of handle_path: the offer's paths stand at the root of base_url; a host of its own is best.",
	},
	{
		OtherServer, "A server answers at the public address, and it is not this one.",
		"Set the DNS record, or the upstream of the proxy in front, to this machine; stop the server that was there before.",
	},
	{
		PostRefused, "Somebody in front of the server refuses POST, by which payments and webhooks arrive.",
		"Allow POST to /v1/ and /mcp in the firewall or the proxy in front, without a challenge for browsers.",
	},
	{
		HeadersCut, "The headers of a quote do not arrive whole: programs cannot pay.",
		"Give the proxy in front a larger buffer ('proxy_buffer_size 8k;' in nginx) and let it pass every header, WWW-Authenticate and PAYMENT-REQUIRED among them.",
	},
	{
		AnswerAltered, "What arrives is not what the server sent: somebody in front rewrites it, which breaks pages and signatures.",
		"Turn rewriting off for this host: minification, script loaders and the hiding of e-mail addresses.",
	},
	{
		AddressesHidden, "All buyers count as one for rate_limit, for their addresses are hidden by the proxy in front: one of them can lock out the others.",
		"Have the proxy send X-Forwarded-For, and name it in the global options: 'servers { trusted_proxies static <its address> }' with trusted_proxies_strict on a line below.",
	},
	{
		LinkBroken, "An address that the offer publishes does not answer.",
		"Correct the option that holds it; for the page of the site, serve it at site_url as caddyfile.md shows; for a path of ours, see what in front of the server answers instead.",
	},
	{
		ChainID, "The RPC endpoint answers for another chain.",
		"Name an endpoint of the rail's network in rpc.",
	},
	{
		TokenMismatch, "The token on the chain is not the one that payers sign for: every signature would be refused, or the amount would be another.",
		"Name an endpoint of the rail's network in rpc; if it is, do not sell by this rail until a version of this module knows the new token.",
	},
	{
		RPCFailing, "The RPC endpoint gives no usable answer, so that payments are seen late or not at all.",
		"Look at the key and the quota at its provider, or name another endpoint in rpc; two hosts are best.",
	},
	{
		NetworkRefused, "The facilitator does not settle on the rail's network.",
		"Name a facilitator that does, or choose another network.",
	},
	{
		KeyRefused, "The facilitator refuses the key, or it cannot be used.",
		"Set key_id and key_secret, or header, to a key that the facilitator knows, and that may verify and settle.",
	},
	{
		Careless, "The facilitator accepts a payer without money: it checks balances only when it settles, if at all. It is used.",
		"Read the chain with rpc, so that no payment rests on the facilitator's report, or name another facilitator.",
	},
	{
		Failing, "The facilitator gives no usable answer, so that programs cannot pay while it lasts.",
		"Look at its status page, and name a second facilitator below the first.",
	},
	{
		PriceSource, "A price source of Bitcoin gives no usable answer. When too few are left, the rail has no amount.",
		"Look whether this machine reaches its host; leave one that is gone out of rates.",
	},
	{
		HookOff, "The webhook's secret is configured and has no value, so that deliveries are refused.",
		"Set the variable and restart the server, for a reload does not read the environment anew; or set the file that it is read from, and reload with --force.",
	},
	{
		HookUnverified, "Deliveries to the webhook are refused, for they are not signed with the configured secret, and none has come since that is. Somebody may only be trying.",
		"Copy the signing secret of this very webhook address again from the provider, and have the provider send the last delivery once more.",
	},
	{
		HookMalformed, "A genuine delivery to the webhook could not be read, and nothing of it was stored.",
		"Have the provider send the events that going-live.md lists.",
	},
	{
		RailUnobserved, "The running server cannot read what was paid on a rail.",
		"Look for the rail in the server's log, and at the endpoints and keys of its options rpc, esplora, api_key and token; what was paid meanwhile is read later.",
	},
	{
		LedgerLost, "The file of the ledger was deleted, moved or replaced while the server runs. The server takes no payments, and has saved all that it had in a file of its own.",
		"Stop the server, put away what is at the ledger's path, copy the saved file back with 'caddy pay-offer ledger restore --create <saved file>' as the user of the server, and start the server.",
	},
	{
		LedgerRefuses, "The ledger takes no change, so that payments are refused.",
		"See the server's log: mostly the disk is full, the file belongs to another user, or the database is down.",
	},
	{
		DiskLow, "Less than 256 MiB are left on the disk of the ledger. On a full disk every payment is refused.",
		"Make room, or move the ledger to a larger disk.",
	},
	{
		ClockWrong, "The clock of this machine is off by more than a minute: payments cannot be judged by their time.",
		"Set the clock, and keep it right by NTP.",
	},
}
