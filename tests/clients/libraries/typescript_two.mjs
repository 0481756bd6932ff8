// The TypeScript SDK v2: `typescript_two.mjs [VERSION]`.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { play, URL_OF_SERVER, HEADERS } from "./telling.mjs";

const client = new Client({ name: "typescript-2", version: "1" });
const transport = new StreamableHTTPClientTransport(URL_OF_SERVER, { requestInit: { headers: HEADERS } });
await client.connect(transport);
await play(client, transport.protocolVersion);
