package offer

// Paths of the service host (docs/developing/decisions.md). The route table in package web has
// exactly these.
const (
	PathPay      = "/pay"                // redirects to the card checkout
	PathOffer    = "/v1/offer"           // the machine-readable quote (HTTP 402)
	PathQuote    = "/v1/quote"           // an alias of PathOffer
	PathSponsor  = "/v1/sponsor"         // the one URL that takes an x402 payment
	PathInvoice  = "/v1/invoice"         // lists every rail as JSON, HTTP 200
	PathMethods  = "/v1/pay"             // the payment page; below it <rail>.uri, <rail>.png and pages of rails
	PathPreview  = "/v1/pay/preview.png" // the image of shared links
	PathButton   = "/v1/pay/button.svg"  // a button for other sites
	PathBadge    = "/v1/pay/badge.svg"   // a badge for other sites
	PathQR       = "/v1/qr"              // the QR images; the rest of the path rebuilds the URI
	PathReceived = "/v1/received"        // the report of payments received, and the feed of changes
	PathReceipt  = "/v1/receipt"         // a payer's page of one payment; the rest of the path is the id
	PathThanks   = "/v1/thanks"          // the page after a checkout
	PathHook     = "/v1/hook"            // the inbound webhooks; below it <rail>/<secret>
	PathHookCard = "/v1/hook/card"       // takes the webhooks of the card processor
	PathMCP      = "/mcp"                // the agent endpoint (JSON-RPC)

	PathHostMeta     = "/.well-known/host-meta"       // RFC 6415 host metadata as XRD
	PathHostMetaJSON = "/.well-known/host-meta.json"  // RFC 6415 host metadata as JSON
	PathDID          = "/.well-known/did.json"        // the did:web document
	PathDIDRoot      = "/did.json"                    // the same for some clients
	PathNodeInfo     = "/.well-known/nodeinfo"        // the NodeInfo discovery document
	PathNodeInfo21   = "/nodeinfo/2.1"                // the NodeInfo 2.1 document
	PathWebFinger    = "/.well-known/webfinger"       // RFC 7033 discovery of the pay account
	PathHumans       = "/humans.txt"                  // the people behind the offer (humanstxt.org)
	PathSecurity     = "/.well-known/security.txt"    // RFC 9116 security.txt
	PathSecurityRoot = "/security.txt"                // redirects to PathSecurity (RFC 9116 section 3)
	PathPackage      = "/package.json"                // the package document with funding URLs
	PathSkill        = "/skills/pay/SKILL.md"         // the agent skill (Agent Skills format)
	PathAgentCard    = "/.well-known/agent-card.json" // the A2A agent card
	PathAgentCardOld = "/.well-known/agent.json"      // the agent card for A2A 0.2 clients
	PathOpenAPI      = "/openapi.json"                // the OpenAPI 3.1.0 document
	PathX402         = "/.well-known/x402"            // the x402 resources for directories
	PathX402JSON     = "/.well-known/x402.json"       // the same document under its other name in use
	PathLLMs         = "/llms.txt"                    // the offer for language models (llmstxt.org)
	PathAPICatalog   = "/.well-known/api-catalog"     // the RFC 9727 API catalog
	PathIcon         = "/favicon.svg"                 // the icon of the pages and of directories
	PathFavicon      = "/favicon.ico"                 // the same for programs that look for it
	PathTouchIcon    = "/apple-touch-icon.png"        // the same for the home screens of phones

	PathSite = "/offer/" // the page on the site host
)

// URIPath is the path of a rail's text/uri-list document.
func URIPath(rail string) string { return PathMethods + "/" + rail + ".uri" }

// PNGPath is the path that redirects to a rail's QR image.
func PNGPath(rail string) string { return PathMethods + "/" + rail + ".png" }

// PagePath is the path of a rail's own page; the bank-transfer rail has one.
func PagePath(rail string) string { return PathMethods + "/" + rail }
