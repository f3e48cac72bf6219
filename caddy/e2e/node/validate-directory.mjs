// Lets the audit behind payment directories ask the endpoint at argv[2] for payment. Prints {"methods", "protocols",
// "warnings"}: the HTTP methods that demand payment, the protocol of each way to pay, and what the audit finds wrong.
import { checkEndpointSchema, getWarningsForL3 } from "@agentcash/discovery";

const { advisories = [] } = await checkEndpointSchema({ url: process.argv[2], probe: true });
const paid = advisories.filter(({ authMode }) => authMode === "paid");
console.log(
  JSON.stringify({
    methods: paid.map(({ method }) => method),
    protocols: paid.flatMap(({ paymentOptions = [] }) => paymentOptions.map(({ protocol }) => protocol)),
    warnings: paid.flatMap((advisory) => getWarningsForL3(advisory)),
  }),
);
