// Walks through the pages of an authorization server in a real browser. What it does comes as JSON in the first
// argument, what it sees goes out as JSON. Nothing is waited for by time: each step waits for what follows from it.
import { chromium } from "playwright-core";

const { executable, flow, deny, hostile, frame, forge, shots } = JSON.parse(process.argv[2]);
const browser = await chromium.launch({ executablePath: executable, args: ["--no-sandbox"] });
const seen = { complaints: [], dialogs: [] };

async function open(url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (message) => {
    // A wrong password has a status of its own, and nobody here has an icon.
    if (!message.text().startsWith("Failed to load resource")) seen.complaints.push(message.text());
  });
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  page.on("dialog", (dialog) => { seen.dialogs.push(dialog.message()); return dialog.dismiss(); });
  await page.goto(url);
  return page;
}

const shoot = (page, name) => page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
const focused = (page) => page.evaluate(() => document.activeElement.id || document.activeElement.value);

// With the keyboard alone: a wrong password, then the right one.
{
  const page = await open(flow.url, { colorScheme: "light" });
  seen.aria = await page.locator("main").ariaSnapshot();
  seen.background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await shoot(page, "light");
  seen.focus = [await focused(page)];
  await page.keyboard.type("editor");
  for (let step = 0; step < 3; step++) {
    await page.keyboard.press("Tab");
    seen.focus.push(await focused(page));
  }
  await page.locator("#password").focus();
  await page.keyboard.type("wrong");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  seen.problem = await page.getByRole("alert").textContent();
  seen.focusAfterProblem = await focused(page);
  seen.kept = [await page.locator("#username").inputValue(), await page.locator("#password").inputValue()];
  await shoot(page, "wrong");
  await page.keyboard.type(flow.password);
  await Promise.all([page.waitForURL(flow.end), page.keyboard.press("Enter")]);
  seen.end = page.url();
}

// In the dark, on a phone, without JavaScript.
{
  const page = await open(flow.url, {
    colorScheme: "dark", javaScriptEnabled: false, viewport: { width: 320, height: 640 },
  });
  await shoot(page, "dark");
  await page.locator("#username").fill("editor");
  await page.locator("#password").fill(flow.password);
  await page.getByRole("button", { name: "Sign in and allow" }).click();
  await page.waitForURL(flow.end);
  seen.withoutScript = page.url();
}

// No.
{
  const page = await open(deny.url);
  await page.getByRole("button", { name: "Deny" }).click();
  await page.waitForURL(deny.end);
  seen.denied = page.url();
}
seen.complaintsOfOurPages = seen.complaints.splice(0);

// A client that calls itself markup.
{
  const page = await open(hostile.url);
  seen.hostile = await page.locator("h1").textContent();
  seen.injected = await page.locator("main img, main script, body > script").count();
  await shoot(page, "hostile");
}

// In a frame of another site.
{
  const page = await open(frame.url);
  seen.framed = await page.frames()[1].evaluate(() => document.body.innerText).catch(() => "");
}

// Another site sends the form by itself, with the password of an attacker.
{
  const page = await open(forge.url);
  await page.waitForURL(/\/authorize$/);
  seen.forged = await page.getByRole("alert").textContent();
}

await browser.close();
console.log(JSON.stringify(seen));
