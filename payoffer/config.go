package payoffer

// Every string below takes the placeholders {env.*} and {file.*}, which are
// resolved when the configuration is loaded.

// CardConfig is the hosted card checkout.
type CardConfig struct {
	// The address of the checkout. Required.
	URL string `json:"url,omitempty"`

	// The payment methods that the checkout offers. Default: card,
	// us_bank_account, cashapp, link, klarna, afterpay_clearpay and affirm.
	Methods []string `json:"methods,omitempty"`

	// The id of the checkout's payment link (plink_…). Required with
	// webhook_secret and api_key: other products of the same account are not
	// this offer.
	PaymentLink string `json:"payment_link,omitempty"`

	// The secret that signs the processor's webhooks; a placeholder keeps it
	// out of the configuration. Default: none, no webhook is taken.
	WebhookSecret string `json:"webhook_secret,omitempty"`

	// The processor's API key, with which payments are read back that no
	// webhook told of; a placeholder keeps it out of the configuration. A
	// restricted key that reads events, checkout sessions, payment intents,
	// charges, refunds and disputes is enough. Default: none.
	APIKey string `json:"api_key,omitempty"`

	// Whether the checkout is in the processor's test mode, whose payments
	// are worth nothing. Default: true for an address that says so, as in
	// https://buy.stripe.com/test_1, which a public offer takes with this option
	// or testnet alone; else false.
	TestMode bool `json:"test_mode,omitempty"`

	// From when on money counts: a day, which begins in UTC, as in 2026-11-01, or
	// an RFC 3339 moment. It may be given later too; what came since then is read
	// back with api_key. Default: the first start.
	Since string `json:"since,omitempty"`
}

// USDCConfig is a rail that takes USDC on one EVM chain.
type USDCConfig struct {
	// The chain: a name such as base, or the CAIP-2 id, as in eip155:8453.
	// Required with an address.
	Network string `json:"network,omitempty"`

	// The receiving address. An empty one leaves the rail out.
	Address string `json:"address,omitempty"`

	// Who verifies and settles x402 payments, tried in order. Default: on a
	// test network https://www.x402.org/facilitator; on others one is required.
	Facilitators []*FacilitatorConfig `json:"facilitators,omitempty"`

	// JSON-RPC endpoints from which payments are read. "off" alone means
	// that the chain is not read. Default: a public endpoint of the chain.
	RPC []string `json:"rpc,omitempty"`

	// The block from which a payment counts: latest, safe or finalized.
	// Default: safe.
	Confirm string `json:"confirm,omitempty"`

	// The address of a block explorer, to which receipts append the hash of a
	// transaction, as in https://basescan.org/tx/. "off" is none. Default: a public
	// one of the chain.
	Explorer string `json:"explorer,omitempty"`

	// The block from which payments are counted. Set to an earlier block later,
	// everything is read again from there; a later one is ignored.
	// Default: the first block after the first start.
	FromBlock uint64 `json:"from_block,omitempty"`
}

// FacilitatorConfig is an x402 facilitator.
type FacilitatorConfig struct {
	// The base URL, to which /verify and /settle are appended. Required.
	URL string `json:"url,omitempty"`

	// The id of the API key. Default: none, requests are not signed.
	KeyID string `json:"key_id,omitempty"`

	// The secret of the API key; a placeholder keeps it out of the
	// configuration. Required with key_id.
	KeySecret string `json:"key_secret,omitempty"`

	// The name of a header with which the facilitator authenticates each call, such
	// as x-secret-key, and its value, such as {env.SETTLER_KEY}. Not together with
	// key_id. Default: none.
	Header string `json:"header,omitempty"`

	// The value of that header; a placeholder keeps it out of the configuration.
	HeaderValue string `json:"header_value,omitempty"`

	// How long one call may take. Default: 30s.
	Timeout span `json:"timeout,omitempty"`
}

// BitcoinConfig is the rail that takes bitcoin.
type BitcoinConfig struct {
	// An address, or the extended public key of an account. An empty one
	// leaves the rail out.
	Account string `json:"account,omitempty"`

	// The kind of address that the wallet of an extended public key receives at;
	// p2wpkh alone is published. An xpub or tpub needs this or first_address.
	AddressType string `json:"address_type,omitempty"`

	// The first receiving address that the wallet of the extended public key
	// shows. It is compared with the one that is published first.
	FirstAddress string `json:"first_address,omitempty"`

	// Esplora endpoints from which payments are read. A payment counts when two
	// hosts show it; if only one host answers its word is taken, and the rail is
	// partial. "off" alone means that the chain is not read. Default: public
	// endpoints of the network, on two hosts.
	Esplora []string `json:"esplora,omitempty"`

	// The price sources whose median is the rate: mempool, coinbase, kraken,
	// bitstamp. Two must answer, or one if you name one. Default: all of
	// them.
	Rates []string `json:"rates,omitempty"`

	// The address of a block explorer, to which receipts append the id of a
	// transaction, as in https://mempool.space/tx/. "off" is none. Default: a public
	// one of the network.
	Explorer string `json:"explorer,omitempty"`

	// The number of blocks after which a payment counts, at most 100.
	// Default: 2.
	Confirmations int `json:"confirmations,omitempty"`

	// From when on money counts: a day, which begins in UTC, as in 2026-11-01, or
	// an RFC 3339 moment. It may be given later too; what came since then is read
	// back from the chain. Default: the first start.
	Since string `json:"since,omitempty"`
}

// BankTransferConfig is the bank-transfer rail.
type BankTransferConfig struct {
	// The path segment of the rail: lower-case letters, digits and hyphens.
	// Default: transfer.
	Name string `json:"name,omitempty"`

	// The e-mail address that answers with an invoice. An empty one leaves
	// the rail out, and is refused beside an account.
	Inbox string `json:"inbox,omitempty"`

	// The text that identifies the offer on a bank statement, at most 140
	// characters. Default: the offer's name and amount.
	Memo string `json:"memo,omitempty"`

	// The name of the account's holder as the bank knows it, at most 70
	// characters. Required with iban and with account.
	AccountHolder string `json:"account_holder,omitempty"`

	// The International Bank Account Number that transfers go to, which is
	// published. Default: none, the account is told by e-mail.
	IBAN string `json:"iban,omitempty"`

	// The code of the bank of iban (BIC, SWIFT). Required for a country outside the
	// European Economic Area.
	BIC string `json:"bic,omitempty"`

	// What is taken in euros for the price, which then stands in the QR code too.
	// Default: none, the price is in US dollars alone.
	PriceEUR string `json:"price_eur,omitempty"`

	// The routing number (ABA) of a bank in the United States. Required with
	// account.
	Routing string `json:"routing,omitempty"`

	// The number of an account at that bank, which is published. Required with
	// routing.
	Account string `json:"account,omitempty"`
}

// StorefrontConfig is a checkout at a shop.
type StorefrontConfig struct {
	// The path segment of the rail: lower-case letters, digits and hyphens.
	// Required.
	Name string `json:"name,omitempty"`

	// The address of the checkout. An empty one leaves the rail out.
	URL string `json:"url,omitempty"`

	// The secret part of the address that the shop calls after a sale, so that
	// the sales are read at once, at least 16 characters; a placeholder keeps it
	// out of the configuration. Default: none, sales are read every 10 minutes.
	HookSecret string `json:"hook_secret,omitempty"`

	// The seller's id at the shop. Default: none.
	Seller string `json:"seller,omitempty"`

	// The product's id at the shop. Required with hook_secret and token.
	Product string `json:"product,omitempty"`

	// The token with which sales are read from the shop; a placeholder keeps it
	// out of the configuration. Default: none, the rail is not monitored.
	Token string `json:"token,omitempty"`

	// From when on money counts: a day, which begins in UTC, as in 2026-11-01, or
	// an RFC 3339 moment. It may be given later too; what came since then is read
	// back with token. Default: the first start.
	Since string `json:"since,omitempty"`
}

// AnnounceConfig is an address to which receipts are announced: one of url, ntfy
// and email.
type AnnounceConfig struct {
	// The address that is called, as Standard Webhooks says. An empty one is left
	// out.
	URL string `json:"url,omitempty"`

	// The secret that signs the announcements; a placeholder keeps it out of
	// the configuration. Default: none.
	Secret string `json:"secret,omitempty"`

	// A second secret that signs beside the first, while the receiver changes
	// from one to the other. Default: none.
	OtherSecret string `json:"other_secret,omitempty"`

	// A topic of ntfy to which a message is sent. Default: none.
	Ntfy *NtfyConfig `json:"ntfy,omitempty"`

	// A mailbox to which a message is sent. Default: none.
	Email *EmailConfig `json:"email,omitempty"`
}

// NtfyConfig is a topic of an ntfy server.
type NtfyConfig struct {
	// The address of the topic, as in https://ntfy.example/topic. Who knows it can
	// read it, unless the server asks for a login. An empty one is left out.
	URL string `json:"url,omitempty"`

	// An access token that may write to the topic; a placeholder keeps it out of the
	// configuration. Default: none.
	Token string `json:"token,omitempty"`
}

// EmailConfig is a mailbox, and the server that takes mail for it.
type EmailConfig struct {
	// The mailbox that receives the announcements. An empty one is left out.
	To string `json:"to,omitempty"`

	// The mail server with its port, as in mail.example:587. Required with a
	// mailbox.
	SMTP string `json:"smtp,omitempty"`

	// The mailbox that sends. Default: the one that receives.
	From string `json:"from,omitempty"`

	// The name to log in with. Default: none, nobody logs in.
	User string `json:"user,omitempty"`

	// The password of the user; a placeholder keeps it out of the configuration.
	// Required with user.
	Password string `json:"password,omitempty"`

	// How the way to the server is encrypted: starttls, implicit (TLS from the first
	// byte on), or off, which is for a server on this machine alone. Default:
	// implicit at port 465, off on this machine, else starttls.
	TLS string `json:"tls,omitempty"`
}

// RateLimitConfig limits the payment attempts of one client address.
type RateLimitConfig struct {
	// The number of attempts in a window. Default: 10.
	Attempts int `json:"attempts,omitempty"`

	// The length of a window. Default: 1m.
	Window span `json:"window,omitempty"`
}

// LedgerConfig says where receipts are kept.
type LedgerConfig struct {
	// The kind of database: sqlite, which is for one instance, or postgres,
	// which several share. Default: sqlite.
	Driver string `json:"driver,omitempty"`

	// The database file of sqlite; a relative path is below Caddy's data
	// directory. Default: pay_offer.db.
	Path string `json:"path,omitempty"`

	// The connection string of postgres, a URL or keywords as in libpq, which
	// also says how TLS is used. It is a secret when it holds a password.
	DSN string `json:"dsn,omitempty"`
}
