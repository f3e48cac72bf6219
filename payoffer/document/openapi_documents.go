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
		parameter("query", "rel", "Relations to list; may be repeated.", object{{"type", "array"}, {"items", text()}}),
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
