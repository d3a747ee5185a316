// The Vercel AI SDK against a running hasten: @ai-sdk/openai-compatible, and @ai-sdk/openai by chat and by responses.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai from "ai";
import { z } from "zod";

const { HASTEN_URL, HASTEN_API_KEY, HASTEN_MODEL, HASTEN_REAL_MODEL } = process.env;
const baseURL = `${HASTEN_URL}/v1`;
const compatible = createOpenAICompatible({
  name: "hasten",
  baseURL,
  apiKey: HASTEN_API_KEY,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const openai = createOpenAI({ baseURL, apiKey: HASTEN_API_KEY });
const prompt = "one two three four";
const rows = [];
let failed = 0;

async function tried(what, check) {
  try {
    rows.push([what, await check()]);
  } catch (error) {
    failed += 1;
    rows.push([what, `FAILED ${error.name}: ${String(error.message).slice(0, 200)}`]);
    console.error(error);
  }
}

function same(seen, wanted) {
  const [one, other] = [JSON.stringify(seen), JSON.stringify(wanted)];
  if (one !== other) throw new Error(`${one} is not ${other}`);
}

const city = z.object({ city: z.string() });
const tools = {
  weather: ai.tool({ description: "The weather", inputSchema: city, execute: async ({ city }) => `fine in ${city}` }),
  time: ai.tool({ description: "The time", inputSchema: city, execute: async () => "noon" }),
};
const ways = {
  "openai-compatible": compatible(HASTEN_MODEL),
  "openai, chat": openai.chat(HASTEN_MODEL),
  "openai, responses": openai.responses(HASTEN_MODEL),
};

for (const [way, model] of Object.entries(ways)) {
  await tried(`${way}: text`, async () => {
    const { text, finishReason, usage } = await ai.generateText({ model, prompt, maxRetries: 0 });
    same([text, finishReason], [prompt, "stop"]);
    return `${usage.totalTokens} tokens`;
  });
  await tried(`${way}: stream`, async () => {
    const result = ai.streamText({ model, prompt, maxRetries: 0 });
    const pieces = [];
    for await (const piece of result.textStream) pieces.push(piece);
    same([pieces.join(""), await result.finishReason], [prompt, "stop"]);
    if (!((await result.usage).totalTokens > 0)) throw new Error("no usage");
    return `${pieces.length} pieces with usage`;
  });
  for (const streamed of [false, true]) {
    await tried(`${way}: tools in steps${streamed ? ", streamed" : ""}`, async () => {
      const options = { model, prompt, tools, stopWhen: ai.stepCountIs(3), maxRetries: 0 };
      const result = streamed ? ai.streamText(options) : await ai.generateText(options);
      if (streamed) await result.consumeStream();
      const [steps, text] = [await result.steps, await result.text];
      same(steps[0].toolCalls.map((call) => [call.toolName, call.input]), [
        ["weather", { city: "Oslo" }],
        ["time", { city: "Oslo" }],
      ]);
      same(text, "It is fine in Oslo and noon.");
      return `${steps.length} steps`;
    });
  }
  await tried(`${way}: structured`, async () => {
    const { output } = await ai.generateText({ model, prompt, output: ai.Output.object({ schema: city }), maxRetries: 0 });
    same(output, { city: "Oslo" });
    return JSON.stringify(output);
  });
  await tried(`${way}: an error`, async () => {
    try {
      await ai.generateText({ model, prompt, temperature: 3, maxRetries: 0 });
    } catch (error) {
      same([ai.APICallError.isInstance(error), error.statusCode], [true, 400]);
      return `${error.statusCode} ${error.message}`;
    }
    throw new Error("it was not refused");
  });
}
await tried("stop sequences", async () => {
  const { text } = await ai.generateText({ model: compatible(HASTEN_MODEL), prompt, stopSequences: [" three"] });
  same(text, "one two");
  return text;
});
await tried("an unknown model", async () => {
  try {
    await ai.generateText({ model: openai.responses("no-such"), prompt, maxRetries: 0 });
  } catch (error) {
    same(error.statusCode, 404);
    return "404";
  }
  throw new Error("it was not refused");
});
await tried("embeddings", async () => {
  const { embeddings } = await ai.embedMany({ model: compatible.textEmbeddingModel("auto"), values: ["one", "two"] });
  same(embeddings.length, 2);
  return `${embeddings[0].length} numbers`;
});
await tried("log probabilities", async () => {
  const options = { openai: { logprobs: 1 } };
  const model = openai.chat(HASTEN_REAL_MODEL);
  const { text, providerMetadata } = await ai.generateText({ model, prompt, maxOutputTokens: 4, providerOptions: options });
  const told = providerMetadata.openai.logprobs.map((one) => one.token);
  same(told.join(""), text);
  return `${told.length} tokens`;
});
await tried("a conversation by responses", async () => {
  const model = openai.responses(HASTEN_MODEL);
  const providerOptions = { openai: { store: false } };
  const first = await ai.generateText({ model, prompt, providerOptions });
  const messages = [{ role: "user", content: prompt }, ...first.response.messages, { role: "user", content: "five" }];
  const { text } = await ai.generateText({ model, messages, providerOptions });
  same(text, "five");
  return "with store false";
});

console.log(`\nVercel AI SDK: ${rows.length - failed} of ${rows.length}`);
const width = Math.max(...rows.map(([what]) => what.length));
for (const [what, seen] of rows) console.log(`  ${what.padEnd(width)}  ${seen}`);
process.exit(failed ? 1 : 0);
