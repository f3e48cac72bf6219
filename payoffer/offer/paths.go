package offer

// Paths of the service host (specification section 4, DESIGN section 2). The
// route table in package web and the OpenAPI document hold exactly these.
const (
	// PathPay redirects to the card checkout.
	PathPay = "/pay"
	// PathOffer is the machine-readable quote (HTTP 402).
	PathOffer = "/v1/offer"
	// PathQuote is an alias of PathOffer.
	PathQuote = "/v1/quote"
	// PathSponsor is the one URL that takes an x402 payment.
	PathSponsor = "/v1/sponsor"
	// PathInvoice lists every rail as JSON, HTTP 200.
	PathInvoice = "/v1/invoice"
	// PathMethods is the page for people: every rail with its QR code. Below
	// it stand <rail>.uri, <rail>.png and the page of the bank-transfer rail.
	PathMethods = "/v1/pay"
	// PathQR holds the QR images; the rest of the path rebuilds the URI.
	PathQR = "/v1/qr"
	// PathReceived reports received money, and changes of receipts in order.
	PathReceived = "/v1/received"
	// PathHook holds the inbound webhooks. Below it stand <storefront>/<secret>.
	PathHook = "/v1/hook"
	// PathHookCard takes the webhooks of the card processor.
	PathHookCard = "/v1/hook/card"
	// PathMCP is the agent endpoint (JSON-RPC).
	PathMCP = "/mcp"

	// PathHostMeta is RFC 6415 host metadata as XRD.
	PathHostMeta = "/.well-known/host-meta"
	// PathHostMetaJSON is RFC 6415 host metadata as JSON.
	PathHostMetaJSON = "/.well-known/host-meta.json"
	// PathDID is the did:web document.
	PathDID = "/.well-known/did.json"
	// PathDIDRoot is where some clients look for the did:web document.
	PathDIDRoot = "/did.json"
	// PathNodeInfo is the NodeInfo discovery document.
	PathNodeInfo = "/.well-known/nodeinfo"
	// PathNodeInfo21 is the NodeInfo 2.1 document.
	PathNodeInfo21 = "/nodeinfo/2.1"
	// PathWebFinger is RFC 7033 discovery of the pay account.
	PathWebFinger = "/.well-known/webfinger"
	// PathHumans is humans.txt.
	PathHumans = "/humans.txt"
	// PathSecurity is RFC 9116 security.txt.
	PathSecurity = "/.well-known/security.txt"
	// PathSecurityRoot redirects to PathSecurity (RFC 9116 section 3).
	PathSecurityRoot = "/security.txt"
	// PathPackage is the package document with funding URLs.
	PathPackage = "/package.json"
	// PathSkill is the agent skill (Agent Skills format).
	PathSkill = "/skills/pay/SKILL.md"
	// PathAgentCard is the A2A agent card.
	PathAgentCard = "/.well-known/agent-card.json"
	// PathAgentCardOld is where A2A 0.2 clients look for the agent card.
	PathAgentCardOld = "/.well-known/agent.json"
	// PathOpenAPI is the OpenAPI 3.1.0 document.
	PathOpenAPI = "/openapi.json"
	// PathX402 lists the x402 resources for payment directories.
	PathX402 = "/.well-known/x402"
	// PathX402JSON is the same document under its other name in use.
	PathX402JSON = "/.well-known/x402.json"
	// PathLLMs is llms.txt.
	PathLLMs = "/llms.txt"
	// PathAPICatalog is the RFC 9727 API catalog.
	PathAPICatalog = "/.well-known/api-catalog"
	// PathFunding is the FLOSS/fund manifest.
	PathFunding = "/funding.json"
	// PathIcon is the icon of the pages, where payment directories look for it.
	PathIcon = "/favicon.svg"

	// PathSite is the page for people on the site host.
	PathSite = "/offer/"
)

// URIPath is the path of a rail's text/uri-list document.
func URIPath(rail string) string { return PathMethods + "/" + rail + ".uri" }

// PNGPath is the path that redirects to a rail's QR image.
func PNGPath(rail string) string { return PathMethods + "/" + rail + ".png" }

// PagePath is the path of a rail's own page; the bank-transfer rail has one.
func PagePath(rail string) string { return PathMethods + "/" + rail }
