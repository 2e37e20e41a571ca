// Drives a browser through a bridge with Playwright, and writes what came of
// it as JSON: node drive.cjs ENDPOINT PAGE PICTURE [TOKEN]. With a token it is
// shown in a header, else the endpoint has it.
'use strict';
const { chromium } = require('playwright-core');

const [endpoint, page, picture, token] = process.argv.slice(2);

// refused tells why an address is not opened: a failure of the browser, or the
// answer of the proxy.
async function refused(context, address) {
  const p = await context.newPage();
  try {
    const answer = await p.goto(address, { timeout: 60000 });
    return answer.status() + ' ' + (await answer.text());
  } catch (e) {
    return (/net::ERR_[A-Z_]+/.exec(e.message) || [e.message.split('\n')[0]])[0];
  } finally {
    await p.close();
  }
}

(async () => {
  const headers = token ? { Authorization: 'Bearer ' + token } : undefined;
  const browser = await chromium.connectOverCDP(endpoint, { headers, timeout: 60000 });
  const context = await browser.newContext({ viewport: { width: 640, height: 480 } });
  const p = await context.newPage();
  const status = (await p.goto(page)).status();
  await p.click('#press');
  const effect = await p.locator('#effect').textContent();
  await p.screenshot({ path: picture });
  const cookies = (await context.cookies()).map((c) => c.name);

  const other = await browser.newContext();
  const q = await other.newPage();
  await q.goto(page);
  const seen = await q.locator('#cookies').textContent();
  const addresses = ['file:///etc/passwd', 'chrome://version', 'view-source:file:///etc/passwd', 'data:text/html,x', 'http://127.0.0.1:9222/json/version', 'http://169.254.169.254/', 'http://other.test/'];
  const blocked = {};
  for (const a of addresses) blocked[a] = await refused(other, a);

  const version = browser.version();
  // What this client calls close would only disconnect it.
  const session = await browser.newBrowserCDPSession();
  const over = new Promise((done) => browser.on('disconnected', done));
  await session.send('Browser.close').catch(() => {});
  await over;
  console.log(JSON.stringify({ status, effect, cookies, seen, blocked, version }));
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
