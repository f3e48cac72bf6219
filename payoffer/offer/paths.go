package offer

// Paths of the service host (specification section 4, DESIGN section 2). The
// route table in package web and the OpenAPI document hold exactly these.
const (
	PathPay      = "/pay"          // redirects to the card checkout
	PathOffer    = "/v1/offer"     // the machine-readable quote (HTTP 402)
	PathQuote    = "/v1/quote"     // an alias of PathOffer
	PathSponsor  = "/v1/sponsor"   // the one URL that takes an x402 payment
	PathInvoice  = "/v1/invoice"   // lists every rail as JSON, HTTP 200
	PathMethods  = "/v1/pay"       // the page for people; below it <rail>.uri, <rail>.png and the page of the bank transfer
	PathQR       = "/v1/qr"        // the QR images; the rest of the path rebuilds the URI
	PathReceived = "/v1/received"  // reports received money, and changes of receipts in order
	PathReceipt  = "/v1/receipt"   // one payment's page, for its payer; the rest of the path is the receipt's id
	PathThanks   = "/v1/thanks"    // where a checkout returns to; waits for the payment
	PathHook     = "/v1/hook"      // the inbound webhooks; below it <storefront>/<secret>
	PathHookCard = "/v1/hook/card" // takes the webhooks of the card processor
	PathMCP      = "/mcp"          // the agent endpoint (JSON-RPC)

	PathHostMeta     = "/.well-known/host-meta"       // RFC 6415 host metadata as XRD
	PathHostMetaJSON = "/.well-known/host-meta.json"  // RFC 6415 host metadata as JSON
	PathDID          = "/.well-known/did.json"        // the did:web document
	PathDIDRoot      = "/did.json"                    // where some clients look for the did:web document
	PathNodeInfo     = "/.well-known/nodeinfo"        // the NodeInfo discovery document
	PathNodeInfo21   = "/nodeinfo/2.1"                // the NodeInfo 2.1 document
	PathWebFinger    = "/.well-known/webfinger"       // RFC 7033 discovery of the pay account
	PathHumans       = "/humans.txt"                  // who is behind the offer (humanstxt.org)
	PathSecurity     = "/.well-known/security.txt"    // RFC 9116 security.txt
	PathSecurityRoot = "/security.txt"                // redirects to PathSecurity (RFC 9116 section 3)
	PathPackage      = "/package.json"                // the package document with funding URLs
	PathSkill        = "/skills/pay/SKILL.md"         // the agent skill (Agent Skills format)
	PathAgentCard    = "/.well-known/agent-card.json" // the A2A agent card
	PathAgentCardOld = "/.well-known/agent.json"      // where A2A 0.2 clients look for the agent card
	PathOpenAPI      = "/openapi.json"                // the OpenAPI 3.1.0 document
	PathX402         = "/.well-known/x402"            // lists the x402 resources for payment directories
	PathX402JSON     = "/.well-known/x402.json"       // the same document under its other name in use
	PathLLMs         = "/llms.txt"                    // the offer for language models (llmstxt.org)
	PathAPICatalog   = "/.well-known/api-catalog"     // the RFC 9727 API catalog
	PathIcon         = "/favicon.svg"                 // the icon of the pages, where payment directories look for it

	PathSite = "/offer/" // the page for people on the site host
)

// URIPath is the path of a rail's text/uri-list document.
func URIPath(rail string) string { return PathMethods + "/" + rail + ".uri" }

// PNGPath is the path that redirects to a rail's QR image.
func PNGPath(rail string) string { return PathMethods + "/" + rail + ".png" }

// PagePath is the path of a rail's own page; the bank-transfer rail has one.
func PagePath(rail string) string { return PathMethods + "/" + rail }
