// Measures the page of the console while much goes on: what it holds, and how long it
// takes to answer input. It prints one line of JSON.
const { chromium } = require('playwright-core');

(async () => {
  const browser = await chromium.connectOverCDP(process.env.CONSOLE_DEVTOOLS);
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 } })).newPage();
  page.setDefaultTimeout(60000);
  await page.goto(process.env.CONSOLE_LINK);
  await page.getByText('1000 of 1000').waitFor();
  await page.evaluate(() => {
    window.times = [];
    window.inputs = new Map(); // by the key that was pressed: from the press until the page has drawn what comes of it
    new PerformanceObserver((list) => { for (const e of list.getEntries()) { window.times.push(e.duration); if (e.interactionId) window.inputs.set(e.interactionId, Math.max(e.duration, window.inputs.get(e.interactionId) ?? 0)); } }).observe({ type: 'event', durationThreshold: 16, buffered: true });
  });
  console.log('ready');
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  const metrics = async () => Object.fromEntries((await cdp.send('Performance.getMetrics')).metrics.map((m) => [m.name, m.value]));
  const before = await metrics();
  const filter = page.getByLabel('Filter');
  const until = Date.now() + Number(process.env.CONSOLE_SECONDS) * 1000;
  let presses = 0;
  while (Date.now() < until) {
    for (const c of 'session-7') { await filter.press(c); presses++; await page.waitForTimeout(60); }
    for (let i = 0; i < 9; i++) { await filter.press('Backspace'); presses++; await page.waitForTimeout(60); }
    await page.locator('.rows').first().evaluate((el) => el.scrollTo(0, Math.random() * el.scrollHeight));
    for (const view of ['#/violations', '#/timeline', '#/']) { await page.evaluate((h) => { location.hash = h; }, view); await page.waitForTimeout(300); }
  }
  // Presses that are answered sooner than the threshold have no entry.
  const slow = await page.evaluate(() => [...window.inputs.values()]);
  const answers = [...Array(Math.max(0, presses - slow.length)).fill(16), ...slow].sort((a, b) => a - b);
  const median = answers[Math.floor(answers.length / 2)];
  const elements = await page.evaluate(() => document.querySelectorAll('*').length);
  const times = (await page.evaluate(() => window.times)).sort((a, b) => a - b);
  const after = await metrics();
  const busy = (after.TaskDuration - before.TaskDuration) / (after.Timestamp - before.Timestamp);
  await cdp.send('HeapProfiler.collectGarbage');
  const memory = await page.evaluate(async () => (await performance.measureUserAgentSpecificMemory()).bytes);
  const points = Number(await page.locator('.plot').first().getAttribute('data-points'));
  console.log(JSON.stringify({ presses, slow: times.length, measured: slow.length, median, p95: times[Math.floor(times.length * 0.95)] ?? 0, worst: times.at(-1) ?? 0, memory, heap: (await metrics()).JSHeapUsedSize, busy, elements, points }));
  await browser.close();
})().then(() => process.exit(0), (e) => { console.error(String(e.stack)); process.exit(1); });
