// Holds the description in the file argv[2] against the official JSON schema of its version, and the same without its
// title, which must be refused. Prints {"valid", "version", "broken"}.
import { readFile } from "node:fs/promises";
import { Validator } from "@seriousme/openapi-schema-validator";

const description = JSON.parse(await readFile(process.argv[2], "utf8"));
const validator = new Validator();
const { valid, errors } = await validator.validate(structuredClone(description));
if (!valid) console.error(errors);
const version = validator.version;
delete description.info.title;
const broken = (await new Validator().validate(description)).valid;
console.log(JSON.stringify({ valid, version, broken }));
