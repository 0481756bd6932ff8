// The client's side of the story for the TypeScript SDKs: telling.py says more.
import { createInterface } from "node:readline/promises";

export const URL_OF_SERVER = new URL(process.env.CLIENT_URL);
export const HEADERS = { Authorization: `Bearer ${process.env.CLIENT_TOKEN}` };
const [BEFORE, AFTER] = JSON.parse(process.env.CLIENT_PLAN);

const say = (what) => console.log(JSON.stringify(what));

export async function play(client, version) {
  client.onerror = (error) => console.error("onerror:", error.message);
  const list = async () => say({ tools: (await client.listTools()).tools.map((tool) => tool.name) });
  const call = async ([name, args]) => {
    const result = await client.callTool({ name, arguments: args });
    say({ shown: result.content.map((block) => block.text).join(""), is_error: Boolean(result.isError) });
  };
  await list();
  for (const step of BEFORE) await call(step);
  say({ restart: true });
  const input = createInterface({ input: process.stdin });
  await input[Symbol.asyncIterator]().next();
  for (const step of AFTER) await call(step);
  await list();
  say({ note: `speaks ${version}` });
  await client.close();
  input.close();
}
