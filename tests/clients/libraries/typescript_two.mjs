// The TypeScript SDK v2: `typescript_two.mjs legacy|auto|VERSION`.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { play, URL_OF_SERVER, HEADERS } from "./telling.mjs";

const [asked] = process.argv.slice(2);
const mode = ["legacy", "auto"].includes(asked) ? asked : { pin: asked };
const client = new Client({ name: "typescript-2", version: "1" }, { versionNegotiation: { mode } });
const transport = new StreamableHTTPClientTransport(URL_OF_SERVER, { requestInit: { headers: HEADERS } });
await client.connect(transport);
await play(client, client.getNegotiatedProtocolVersion());
