// Loaded before a program that asks the public endpoint of Base Sepolia: it gets the answers of the chain at RPC_URL.
import { baseSepolia } from "viem/chains";

const [endpoint] = baseSepolia.rpcUrls.default.http;
const direct = globalThis.fetch;
globalThis.fetch = (input, init) => {
  const url = input instanceof Request ? input.url : String(input);
  return direct(url.startsWith(endpoint) ? process.env.RPC_URL : input, init);
};
