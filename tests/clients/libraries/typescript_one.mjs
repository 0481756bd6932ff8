// The TypeScript SDK v1.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { play, URL_OF_SERVER, HEADERS } from "./telling.mjs";

const client = new Client({ name: "typescript-1", version: "1" });
const transport = new StreamableHTTPClientTransport(URL_OF_SERVER, { requestInit: { headers: HEADERS } });
await client.connect(transport);
await play(client, transport.protocolVersion);
