// Drives examples/complete.py with a client of the TypeScript SDK, and prints what it saw as JSON.
//
//   node drive.mjs v1|v2 '{"url": …}'|'{"sse": …}'|'{"command": …, "args": […]}' legacy|auto|REVISION
//
// v1 knows only handshakes ("legacy").
const [generation, target, mode] = process.argv.slice(2);
const where = JSON.parse(target);
const root = { v1: "@modelcontextprotocol/sdk/client/", v2: "@modelcontextprotocol/client" }[generation];

async function transport() {
    if (where.url) {
        const module = await import(generation === "v1" ? root + "streamableHttp.js" : root);
        return new module.StreamableHTTPClientTransport(new URL(where.url));
    }
    if (where.sse) {
        const module = await import(generation === "v1" ? root + "sse.js" : root);
        return new module.SSEClientTransport(new URL(where.sse));
    }
    const module = await import(generation === "v1" ? root + "stdio.js" : root + "/stdio");
    return new module.StdioClientTransport(where);
}

function negotiation() {
    return { versionNegotiation: { mode: ["legacy", "auto"].includes(mode) ? mode : { pin: mode } } };
}

const { Client } = await import(generation === "v1" ? root + "index.js" : root);
const client = new Client({ name: "test", version: "1" }, generation === "v1" ? {} : negotiation());
const channel = await transport();
await client.connect(channel);

// The generations differ in one signature: the first takes a schema before the options.
const call = (name, args, options) =>
    client.callTool({ name, arguments: args }, ...(generation === "v1" ? [undefined, options] : [options]));
const codeOf = promise => promise.then(() => null, error => error.code);

async function order(options) {
    const cart = await call("add_to_cart", { items: [{ sku: "MU-1" }] });
    const address = { name: "A. Customer", street: "Main Street 1", city: "Oslo", country: "NO" };
    const cartId = JSON.parse(cart.content[0].text).id;
    return JSON.parse((await call("check_out", { cart_id: cartId, address }, options)).content[0].text);
}

// Give up at the first progress; then wait until the parcel may be followed again.
async function cancel(number) {
    const controller = new AbortController();
    const happened = [];
    const onprogress = said => {
        happened.push(said.message);
        controller.abort("enough");
    };
    const following = call("follow_parcel", { number, pace: 60 }, { signal: controller.signal, onprogress });
    happened.push(await following.then(() => "arrived", () => "failed"));
    while ((await call("follow_parcel", { number, pace: 0 })).isError);
    return happened;
}

const progress = [];
const seen = {
    server: client.getServerVersion()?.name,
    instructions: client.getInstructions()?.slice(0, 6),
    revision: generation === "v2" ? client.getNegotiatedProtocolVersion() : null,
    tools: (await client.listTools()).tools.map(tool => tool.name),
    resources: (await client.listResources()).resources.map(resource => resource.uri),
    templates: (await client.listResourceTemplates()).resourceTemplates.map(template => template.uriTemplate),
    prompts: (await client.listPrompts()).prompts.map(prompt => prompt.name),
    found: (await call("search", { query: "mug" })).structuredContent,
    refused: await call("add_to_cart", { items: [{ sku: "??" }] }),
    unknownTool: await codeOf(call("nothing", {})),
    about: (await client.readResource({ uri: "shop://about" })).contents,
    unknownResource: await codeOf(client.readResource({ uri: "shop://products/süß" })),
    prompt: (await client.getPrompt({ name: "compare", arguments: { first: "SH-1", second: "SH-2" } })).messages,
    completed: (
        await client.complete({
            ref: { type: "ref/prompt", name: "compare" },
            argument: { name: "second", value: "sh" },
            context: { arguments: { first: "SH-1" } },
        })
    ).completion.values,
    total: (await order({ onprogress: said => progress.push(said.message) })).total,
    progress,
    cancelled: await cancel((await order()).number),
};
await channel.terminateSession?.();
await client.close();
console.log(JSON.stringify(seen));
