// Looks through each view of the console with axe-core, in both colour schemes and at
// two widths: in two of the four combinations, or in all with CONSOLE_LOOKS=all. It
// prints the number of views, and fails for a fault that is serious.
const fs = require('node:fs');
const { chromium } = require('playwright-core');
const { execFileSync } = require('node:child_process');

const env = process.env;
const base = env.CONSOLE_BASE;
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const run = (...args) => execFileSync('sandbox', ['--server', base, ...args], { env: { ...env, SANDBOX_TOKEN: env.CONSOLE_ADMIN }, stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim();

(async () => {
  run('--session', 'seen', 'run', '--', 'sh', '-c', 'echo text > notes.md; curl -sS http://a.example || true');
  const ask = (path, o = {}) => fetch(base + path, { ...o, headers: { Authorization: 'Bearer ' + env.CONSOLE_ADMIN, 'Content-Type': 'application/json' } });
  const s = (await (await ask('/v1/sandboxes?session=seen')).json()).items[0];
  await ask(`/v1/sandboxes/${s.name}/processes`, { method: 'POST', body: JSON.stringify({ line: 'python3 -m http.server --bind 127.0.0.1 8000' }) });
  const asking = ask(`/v1/sandboxes/${s.name}/exec`, { method: 'POST', body: JSON.stringify({ args: ['curl', '-m', '60', 'http://approve.example/'], ask: true }) });
  const browser = await chromium.connectOverCDP(env.CONSOLE_DEVTOOLS);
  const box = `#/s/-/${s.provider}/${s.name}/`;
  const views = ['#/', '#/approvals', '#/violations', '#/egress', '#/evidence', '#/timeline', '#/tenants', '#/settings', ...['stats', 'terminal', 'files', 'processes', 'ports', 'browser', 'changes', 'violations', 'evidence', 'timeline'].map((t) => box + t)];
  const faults = [];
  let n = 0;
  const looks = [['light', 1280], ['dark', 360], ...(env.CONSOLE_LOOKS ? [['dark', 1280], ['light', 360]] : [])];
  for (const [colorScheme, width] of looks) {
    const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, bypassCSP: true });
    const page = await context.newPage();
    await page.goto(run('ui'));
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.evaluate(axe);
    for (const view of views) {
      await page.evaluate((h) => { location.hash = h; }, view);
      await page.waitForFunction(() => !document.querySelector('main .empty[role=status]'));
      const file = page.getByRole('button', { name: 'notes.md', exact: true });
      if (view.endsWith('/files')) {
        await file.click();
        await page.getByLabel(/^Content of/).waitFor();
      }
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) faults.push(`${view} ${colorScheme} ${width}: ${wide} pixels too wide`);
      for (const v of found.violations) if (['serious', 'critical'].includes(v.impact)) faults.push(`${view} ${colorScheme} ${width}: ${v.id}: ${v.nodes.slice(0, 3).map((x) => x.html.slice(0, 160) + ' ' + (x.any[0]?.message ?? '')).join(' | ')}`);
      n++;
    }
    await context.close();
  }
  await browser.close();
  asking.catch(() => undefined);
  if (faults.length) throw new Error(faults.join('\n'));
  console.log(`looked through ${n} views`);
})().then(() => process.exit(0), (e) => { console.error(String(e.message).slice(0, 6000)); process.exit(1); });
