package document

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// discoveryOperations are the documents of this package.
func discoveryOperations(o *offer.Offer) []operation {
	finger := discovery(offer.PathWebFinger, "getWebFinger", "WebFinger of the pay account (RFC 7033)", media(typeJRD, ref("JRD")))
	finger.parameters = []object{
		required(parameter("query", "resource", "The account, as in "+o.Acct()+".", text())),
		parameter("query", "rel", "Relations to list; may be repeated.", listOf(text())),
	}
	did, agentCard := media("application/did+json", ref("DIDDocument")), media(typeJSON, ref("AgentCard"))
	ops := []operation{
		discovery(offer.PathHostMeta, "getHostMeta", "Host metadata as XRD, or as JSON on request (RFC 6415)",
			media("application/xrd+xml", text()), media(typeJRD, ref("JRD"))),
		discovery(offer.PathHostMetaJSON, "getHostMetaJSON", "Host metadata as JSON (RFC 6415)", media(typeJRD, ref("JRD"))),
		finger,
		discovery(offer.PathDID, "getDID", "DID document (did:web)", did),
		discovery(offer.PathDIDRoot, "getDIDRoot", "DID document, second address", did),
		discovery(offer.PathNodeInfo, "getNodeInfoIndex", "NodeInfo discovery", media(typeJSON, ref("JRD"))),
		discovery(offer.PathNodeInfo21, "getNodeInfo", "NodeInfo 2.1 with payment metadata", media(typeJSON, ref("NodeInfo"))),
		discovery(offer.PathHumans, "getHumans", "The operator and every rail (humans.txt)", media(typeText, text())),
		discovery(offer.PathSecurity, "getSecurity", "Contacts (security.txt, RFC 9116)", media(typeText, text())),
		{
			method: http.MethodGet, path: offer.PathSecurityRoot, id: "getSecurityRoot", tag: tagDiscovery,
			summary:   "Leads to security.txt",
			responses: answers(on("302", redirect("The address of security.txt."))),
		},
		discovery(offer.PathPackage, "getPackage", "Package document with funding addresses (npm)", media(typeJSON, ref("PackageDocument"))),
		discovery(offer.PathSkill, "getSkill", "Agent skill: how to pay", media("text/markdown", text())),
		discovery(offer.PathAgentCard, "getAgentCard", "Agent card (A2A 0.3.0)", agentCard),
		discovery(offer.PathAgentCardOld, "getAgentCardOld", "Agent card, older address", agentCard),
		discovery(offer.PathOpenAPI, "getOpenAPI", "This description", media(typeJSON, object{{"type", "object"}})),
		discovery(offer.PathLLMs, "getLLMs", "Summary for language models (llms.txt)", media(typeText, text())),
		discovery(offer.PathAPICatalog, "getAPICatalog", "API catalog (RFC 9727)", media("application/linkset+json", ref("Linkset"))),
		discovery(offer.PathIcon, "getIcon", "The icon", media("image/svg+xml", text())),
	}
	if len(o.USDC()) > 0 {
		resources := media(typeJSON, ref("X402Resources"))
		ops = append(ops,
			discovery(offer.PathX402, "getX402", "Payable resources for x402 directories", resources),
			discovery(offer.PathX402JSON, "getX402JSON", "Payable resources for x402 directories, second address", resources))
	}
	if o.Funding != nil {
		ops = append(ops, discovery(offer.PathFunding, "getFunding", "Funding manifest (FLOSS/fund)", media(typeJSON, ref("FundingManifest"))))
	}
	return ops
}

// discovery is the operation that answers a document.
func discovery(path, id, summary string, types ...member) operation {
	return operation{
		method: http.MethodGet, path: path, id: id, tag: tagDiscovery, summary: summary,
		responses: answers(on("200", contents("The document.", types...))),
	}
}

// documentSchemas are the shapes of the documents in JSON.
func documentSchemas(o *offer.Offer) []member {
	all := []member{
		{"JRD", jrdSchema()},
		{"DIDDocument", didSchema()},
		{"NodeInfo", nodeInfoDocumentSchema()},
		{"PackageDocument", packageSchema()},
		{"AgentCard", agentCardSchema()},
		{"Linkset", linksetSchema()},
	}
	if len(o.USDC()) > 0 {
		all = append(all, member{"X402Resources", x402Schema()})
	}
	if o.Funding != nil {
		all = append(all, member{"FundingManifest", fundingSchema()})
	}
	return all
}

// mapOf is an object whose members all have one schema.
func mapOf(schema object) object { return object{{"type", "object"}, {"additionalProperties", schema}} }

func constant(value string) object { return object{{"type", "string"}, {"const", value}} }

// jrdSchema is a JSON resource descriptor (RFC 7033 section 4.4, RFC 6415
// appendix A for templates).
func jrdSchema() object {
	return record([]string{"links"},
		member{"subject", uri("Whom the descriptor is about.")},
		member{"aliases", listOf(uri("Another name of the subject."))},
		member{"properties", mapOf(text())},
		member{"links", listOf(record([]string{"rel"},
			member{"rel", text()},
			member{"type", text()},
			member{"href", uri("The target.")},
			member{"template", described("string", "The target's template, with {uri} once.")},
			member{"titles", mapOf(text())},
		))})
}

func didSchema() object {
	return record([]string{"@context", "id", "service"},
		member{"@context", listOf(text())},
		member{"id", text()},
		member{"alsoKnownAs", listOf(uri("Another name of the subject."))},
		member{"verificationMethod", listOf(record([]string{"id", "type", "controller", "publicKeyJwk"},
			member{"id", text()},
			member{"type", text()},
			member{"controller", text()},
			member{"publicKeyJwk", described("object", "The public key (RFC 8037).")},
		))},
		member{"assertionMethod", listOf(text())},
		member{"service", listOf(whole(
			member{"id", text()},
			member{"type", text()},
			member{"serviceEndpoint", uri("Where to pay.")},
		))})
}

// nodeInfoDocumentSchema is what this service says of NodeInfo 2.1.
func nodeInfoDocumentSchema() object {
	return whole(
		member{"version", constant("2.1")},
		member{"software", whole(member{"name", text()}, member{"version", text()}, member{"repository", uri("The source code.")})},
		member{"protocols", listOf(text())},
		member{"services", whole(member{"inbound", listOf(text())}, member{"outbound", listOf(text())})},
		member{"openRegistrations", boolean()},
		member{"usage", whole(member{"users", object{{"type", "object"}}})},
		member{"metadata", object{{"type", "object"}, {"description", "The offer and its rails."}}})
}

func packageSchema() object {
	return whole(
		member{"name", text()},
		member{"version", text()},
		member{"private", boolean()},
		member{"description", text()},
		member{"homepage", uri("The page for people.")},
		member{"funding", listOf(whole(member{"type", text()}, member{"url", uri("Where to pay.")}))})
}

// linksetSchema is a set of links (RFC 9264 section 4.2).
func linksetSchema() object {
	targets := listOf(record([]string{"href"},
		member{"href", uri("The target.")}, member{"type", text()}, member{"title", text()}))
	return whole(member{"linkset", listOf(record([]string{"anchor"},
		member{"anchor", uri("What the links are of.")},
		member{"item", targets},
		member{"service-desc", targets},
		member{"service-doc", targets},
		member{"payment", targets}))})
}
