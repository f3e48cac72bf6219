// Prints what a wallet's parser makes of the payment URI argv[2].
import { decode } from "bip21";
import { parse } from "eth-url-parser";

const uri = process.argv[2];
console.log(JSON.stringify(uri.startsWith("bitcoin:") ? decode(uri) : parse(uri)));
