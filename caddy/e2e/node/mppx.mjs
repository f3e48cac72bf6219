// The command of the Payment scheme's own tool. Its program alone would be left out, as a file without effects.
import cli from "./node_modules/mppx/dist/cli/cli.js";

await cli.serve();
