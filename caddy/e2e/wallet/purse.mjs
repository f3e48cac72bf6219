// Wallets that are scripted, and how they come to a page.
import { packages } from "../browser/drive.mjs";

const { privateKeyToAccount } = packages("viem/accounts");

// What happens is counted, and next waits for what it has not returned for yet.
export const count = () => ({ happened: 0, heard: 0 });
export const happens = (counted) => {
  counted.happened++;
  counted.wake?.();
};
export const next = async (counted) => {
  if (counted.happened === counted.heard) await new Promise((wake) => (counted.wake = wake));
  counted.heard = counted.happened;
};

// error is one as wallets throw it.
const error = (code, message = "the wallet's own words") => ({ error: { code, message } });

// answer is what a wallet says to a page (EIP-1193).
export async function answer(wallet, method, params) {
  wallet.calls.push(method);
  const fault = wallet.faults?.[method];
  if (fault) return error(fault.code, fault.message);
  if (wallet.hold === method) {
    await new Promise((release) => {
      wallet.held.push(release);
      happens(wallet.holding);
    });
  }
  const account = (wallet.accounts[wallet.key] ??= privateKeyToAccount(wallet.key));
  const address = wallet.contract || account.address;
  switch (method) {
    case "eth_requestAccounts":
      return { result: wallet.locked ? [] : [address] };
    case "eth_accounts":
      return { result: wallet.forgetful ? [] : [wallet.account || address] };
    case "eth_chainId":
      if (wallet.next && !wallet.slow--) [wallet.chain, wallet.next] = [wallet.next];
      return { result: wallet.chain };
    case "wallet_switchEthereumChain":
      if (!wallet.known.includes(params[0].chainId)) return error(wallet.unknown || 4902);
      if (wallet.slow) wallet.next = params[0].chainId;
      else if (!wallet.stuck) wallet.chain = params[0].chainId;
      return { result: null };
    case "wallet_addEthereumChain":
      wallet.added.push(params[0]);
      wallet.known.push(params[0].chainId);
      return { result: null };
    case "eth_call": {
      const response = await fetch(wallet.rpc, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      });
      return { result: (await response.json()).result };
    }
    case "eth_signTypedData_v4":
      if (params[0] !== address) return error(4100);
      wallet.signed.push(JSON.parse(params[1]));
      // A wallet that is a contract has signatures of any length (EIP-1271).
      return { result: (await account.signTypedData(JSON.parse(params[1]))) + "00".repeat(wallet.longer ?? 0) };
  }
  return error(-32601);
}

// scripted is a wallet with what happens to it.
export const scripted = (given) => ({ ...given, calls: [], added: [], signed: [], accounts: {}, holding: count(), held: [], answers: [] });

// announce runs in a page before its scripts: it has the wallets there, and keeps what the page does with them.
export function announce(wallets) {
  const provider = (id) => ({
    request: async ({ method, params = [] }) => {
      const { result, error } = await window.askWallet(id, method, params);
      if (error) throw Object.assign(new Error(error.message), error);
      return result;
    },
  });
  const tell = ({ id, name, icon }) => {
    const detail = Object.freeze({ info: { uuid: `uuid-${id}`, name, icon, rdns: "org.example" }, provider: provider(id) });
    window.dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
  };
  window.appear = (wallet) => {
    if (!wallet.legacy) return tell(wallet);
    window.ethereum = provider(wallet.id);
    if (wallet.legacy === "initialized") window.dispatchEvent(new Event("ethereum#initialized"));
  };
  const there = wallets.filter((wallet) => !wallet.late);
  window.addEventListener("eip6963:requestProvider", () => there.filter((wallet) => !wallet.legacy).forEach(tell));
  there.filter((wallet) => wallet.legacy).forEach(window.appear);
}

// announcement is what a page is told of a wallet.
export const announcement = ({ name, icon, legacy, late }, id) => ({ id, name, icon, legacy, late });
