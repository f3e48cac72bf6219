// Resolves the DID argv[2] as the packages of its method do. Prints {"metadata", "document"}.
import { Resolver } from "did-resolver";
import { getResolver } from "web-did-resolver";

const { didResolutionMetadata, didDocument } = await new Resolver(getResolver()).resolve(process.argv[2]);
console.log(JSON.stringify({ metadata: didResolutionMetadata, document: didDocument }));
