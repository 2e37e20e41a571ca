// Uses those parts of the web console in a real Chromium that need more than a local
// sandbox: the answers on record, the changes of a private workspace, and a browser
// with its display. Each check that has passed is one line; the first that fails ends
// the program with an error.
const fs = require('node:fs');
const { chromium } = require('playwright-core');
const { execFile } = require('node:child_process');
const { promisify } = require('node:util');

const env = process.env;
const base = env.CONSOLE_BASE;
const admin = env.CONSOLE_ADMIN;

const began = Date.now();
const passed = (name) => console.log(`passed ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
function must(ok, what) {
  if (!ok) throw new Error(what);
}

async function sandbox(...args) {
  const { stdout } = await promisify(execFile)('sandbox', ['--server', base, ...args], { env: { ...env, SANDBOX_TOKEN: admin } });
  return stdout.trim();
}

async function ask(method, path, body, refused = false) {
  const json = body !== undefined && typeof body !== 'string';
  const res = await fetch(base + path, { method, headers: { Authorization: 'Bearer ' + admin, ...(json ? { 'Content-Type': 'application/json' } : {}) }, body: json ? JSON.stringify(body) : body });
  const text = await res.text();
  if (!res.ok && !refused) throw new Error(`${method} ${path}: ${res.status} ${text}`);
  try { return JSON.parse(text); } catch { return text; }
}

async function open(browser, ...flags) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1100 } });
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.faults = [];
  page.on('pageerror', (e) => page.faults.push('error: ' + e.message));
  page.on('request', (r) => { if (!/^(blob:|data:)/.test(r.url()) && !r.url().startsWith(base + '/')) page.faults.push('request: ' + r.url()); });
  page.on('console', (m) => { if (/Content Security Policy|Trusted|sandboxed/i.test(m.text()) && !page.tried) page.faults.push('policy: ' + m.text()); });
  await page.goto(await sandbox('ui', ...flags));
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return page;
}

const go = (page, hash) => page.evaluate((h) => { location.hash = h; }, hash);
const box = (s, tab) => `#/s/${encodeURIComponent(s.tenant || '-')}/${s.provider}/${s.name}/${tab}`;
const clean = (page) => must(page.faults.length === 0, page.faults.join('\n'));
const ofSession = async (session) => (await ask('GET', '/v1/sandboxes?session=' + session)).items[0];

// approvals answers questions before the page is opened, and finds the answers in the
// timeline.
async function approvals(browser) {
  await ask('POST', '/v1/sandboxes', { session: 'asked', agent: 'careful' });
  const s = (await ask('GET', '/v1/sandboxes?session=asked&agent=careful')).items[0];
  for (const [exec, permission] of [
    [{ line: 'echo $(id)' }, 'allow_once'], [{ line: 'echo $(id -u)' }, 'deny'],
    [{ args: ['curl', '-sS', '-m', '5', 'http://once.example/'] }, 'allow_once'], [{ args: ['curl', '-sS', '-m', '5', 'http://never.example/'] }, 'deny'],
    [{ args: ['sh', '-c', 'curl -sS -m 5 http://session.example/; curl -sS -m 5 http://session.example/; true'] }, 'allow_session'],
  ]) {
    const running = ask('POST', `/v1/sandboxes/${s.name}/exec`, { ...exec, ask: true }, true);
    for (let open = true; open;) {
      const questions = (await ask('GET', '/v1/approvals?waitSeconds=1')).items;
      for (const q of questions) await ask('POST', '/v1/approvals/' + q.id, { permission: q.kind === 'command' && exec.args ? 'allow_once' : permission });
      open = await Promise.race([running.then(() => false), new Promise((done) => { setTimeout(() => done(true), 50); })]);
    }
  }
  const page = await open(browser);
  await go(page, box(s, 'timeline'));
  await page.getByLabel('Kind').selectOption('approval');
  const rows = page.getByRole('table', { name: 'Timeline' }).getByRole('row');
  for (const [what, outcome] of [['once.example', 'Allowed once'], ['never.example', 'Denied'], ['session.example', 'Allowed for the session']]) {
    await rows.filter({ hasText: what }).filter({ hasText: outcome }).first().waitFor();
    must((await rows.filter({ hasText: what }).filter({ hasText: outcome }).count()) === 1, `the answer about ${what} is there more than once`);
  }
  for (const outcome of ['Allowed once', 'Denied']) await rows.filter({ hasText: 'execute' }).filter({ hasText: outcome }).first().waitFor();
  passed('answers from before the page was opened');

  const running = ask('POST', `/v1/sandboxes/${s.name}/exec`, { args: ['curl', '-sS', '-m', '5', 'http://now.example/'], ask: true }, true);
  const waits = rows.filter({ hasText: 'now.example' });
  await waits.filter({ hasText: 'waits' }).first().waitFor();
  for (let open = true; open;) {
    for (const q of (await ask('GET', '/v1/approvals?waitSeconds=1')).items) await ask('POST', '/v1/approvals/' + q.id, { permission: 'allow_once' });
    open = await Promise.race([running.then(() => false), new Promise((done) => { setTimeout(() => done(true), 50); })]);
  }
  await rows.filter({ hasText: 'connect' }).filter({ hasText: 'now.example' }).filter({ hasText: 'Allowed once' }).first().waitFor();
  must((await rows.filter({ hasText: 'connect' }).filter({ hasText: 'now.example' }).count()) === 1, 'an answer that the page has seen is there twice');
  passed('an answer that another program gives');
  clean(page);
}

// changes applies one change of a private workspace, and discards others.
async function changes(browser) {
  const folder = env.CONSOLE_FOLDER;
  await sandbox('--session', 'changed', 'run', '--private', '--workspace', folder, '--', 'sh', '-c', 'echo new > kept.txt; echo x > gone.txt; echo y > other.txt; echo more >> there.txt');
  const s = await ofSession('changed');
  const page = await open(browser);
  await go(page, box(s, 'changes'));
  const rows = page.getByRole('table', { name: 'Changes' }).getByRole('row');
  for (const name of ['kept.txt', 'gone.txt', 'other.txt', 'there.txt']) await rows.filter({ hasText: name }).waitFor();
  await rows.filter({ hasText: 'there.txt' }).getByRole('button').click();
  await page.getByLabel('Difference').getByText('+more').waitFor();
  await page.getByRole('button', { name: 'Select none' }).click();
  passed('changes and their differences');

  await rows.filter({ hasText: 'kept.txt' }).getByRole('button').click();
  await page.getByRole('button', { name: 'Apply this change' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(folder).waitFor();
  must(!(await dialog.innerText()).includes('gone.txt'), 'more is to be applied than was chosen');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  must(!fs.existsSync(folder + '/kept.txt'), 'a change was applied that was not confirmed');
  await page.getByRole('button', { name: 'Apply this change' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Apply' }).click();
  await page.getByText('The changes are applied').waitFor();
  await rows.filter({ hasText: 'kept.txt' }).waitFor({ state: 'detached' });
  must(fs.readFileSync(folder + '/kept.txt', 'utf8') === 'new\n' && !fs.existsSync(folder + '/gone.txt') && fs.readFileSync(folder + '/there.txt', 'utf8') === 'old\n', 'other changes were applied: ' + fs.readdirSync(folder));
  passed('one change is applied');

  await rows.filter({ hasText: 'gone.txt' }).getByRole('button').click();
  await page.getByRole('button', { name: 'Discard this change' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Discard this change' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
  await rows.filter({ hasText: 'gone.txt' }).waitFor({ state: 'detached' });
  await rows.filter({ hasText: 'other.txt' }).waitFor();
  const seen = () => sandbox('--session', 'changed', 'run', '--private', '--workspace', folder, '--', 'sh', '-c', 'ls; cat there.txt');
  must((await seen()) === 'kept.txt\nother.txt\nthere.txt\nold\nmore', 'the view has ' + JSON.stringify(await seen()));
  passed('one change is discarded');

  await page.getByRole('button', { name: 'Discard all' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
  await page.getByText('Nothing was changed').waitFor();
  must((await seen()) === 'kept.txt\nthere.txt\nold' && fs.readFileSync(folder + '/there.txt', 'utf8') === 'old\n', 'the view has ' + JSON.stringify(await seen()));
  passed('all changes are discarded');

  // What has changed on the host since the plan was shown is not written over.
  await sandbox('--session', 'changed', 'run', '--private', '--workspace', folder, '--', 'sh', '-c', 'echo mine > there.txt');
  await page.getByRole('link', { name: 'Stats' }).click();
  await page.getByRole('link', { name: 'Changes' }).click();
  await page.getByRole('button', { name: 'Apply all' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Apply' }).waitFor();
  fs.writeFileSync(folder + '/there.txt', 'of the host\n');
  await page.getByRole('dialog').getByRole('button', { name: 'Apply' }).click();
  await page.locator('.notice.bad').waitFor();
  must(fs.readFileSync(folder + '/there.txt', 'utf8') === 'of the host\n', 'a change of the host was written over');
  passed('a change that is in conflict is not applied');

  const reader = await open(browser, '--read-only');
  await go(reader, box(s, 'changes'));
  await reader.getByRole('table', { name: 'Changes' }).getByRole('row').filter({ hasText: 'there.txt' }).waitFor();
  must((await reader.getByRole('button', { name: /Apply|Discard/ }).count()) === 0, 'a login that only reads is offered to apply');
  passed('a login that only reads sees changes');
  clean(page);
  clean(reader);
}

// colour is that of the middle of a picture or canvas, as the page draws it.
const colour = (el) => {
  const c = document.createElement('canvas');
  c.width = c.height = 1;
  const w = el.naturalWidth || el.width;
  const h = el.naturalHeight || el.height;
  const at = c.getContext('2d');
  at.drawImage(el, Math.floor(w / 2), Math.floor(h / 2), 1, 1, 0, 0, 1, 1);
  return [...at.getImageData(0, 0, 1, 1).data].slice(0, 3).join(',');
};

// surf uses the browser of a session, and looks at its display in the page.
async function surf(browser) {
  await ask('POST', '/v1/sandboxes', { session: 'surf', agent: 'surfer' });
  const s = (await ask('GET', '/v1/sandboxes?session=surf&agent=surfer')).items[0];
  const at = `/v1/sandboxes/${s.name}`;
  for (const [name, background] of [['red', '#ff0000'], ['blue', '#0000ff']]) await ask('PUT', `${at}/files/workspace/${name}.html`, `<!doctype html><title>${name}</title><body style="background: ${background}">`);
  const page = await open(browser);
  await go(page, box(s, 'browser'));
  await page.getByText('The session has no browser').waitFor();
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.getByText('The browser runs').waitFor({ timeout: 180000 });
  await page.getByLabel('Address').fill('red.html');
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  const picture = page.getByAltText('The page as the browser shows it');
  await picture.waitFor();
  must((await picture.evaluate(colour)) === '255,0,0', 'the picture has the colour ' + (await picture.evaluate(colour)));
  passed('a picture of the page');

  // A browser without a display that is in use is not replaced in silence.
  await page.getByRole('button', { name: 'Show the display' }).click();
  await page.locator('.notice.bad').waitFor();
  must((await page.locator('iframe').count()) === 0, 'a display is shown that there is not');
  await page.locator('.notice.bad button').first().click();
  passed('a browser without a display says so');

  await page.getByRole('button', { name: 'Remove', exact: true }).last().click();
  await page.getByText('The session has no browser').waitFor({ timeout: 120000 });
  passed('the browser is removed');

  await page.getByRole('button', { name: 'Start with a display' }).click();
  await page.locator('iframe[data-state=shown]').waitFor({ timeout: 180000 });
  await page.getByLabel('Address').fill('blue.html');
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  const inside = page.frames().find((f) => f.url().endsWith('/ui/display.html'));
  const canvas = inside.locator('canvas');
  for (let tries = 0; (await canvas.evaluate(colour)) !== '0,0,255'; tries++) {
    must(tries < 600, 'the display has the colour ' + (await canvas.evaluate(colour)));
    await page.waitForTimeout(100);
  }
  clean(page);
  passed('the display shows the page');

  page.tried = true; // the policy says what it has stopped
  const reach = await inside.evaluate(async ({ base, path }) => {
    const out = { origin: location.origin === 'null' || self.origin === 'null' };
    const never = (name, fn) => { try { fn(); out[name] = false; } catch { out[name] = true; } };
    never('storage', () => localStorage.length);
    never('cookies', () => document.cookie);
    never('parent', () => parent.document.body);
    never('top', () => { top.location.href = base + '/ui/other'; });
    out.fetch = await fetch(base + path, { credentials: 'include' }).then(() => false, () => true);
    out.image = await new Promise((done) => { const i = new Image(); i.onload = () => done(false); i.onerror = () => done(true); i.src = base + '/ui/icon.svg'; });
    out.socket = await new Promise((done) => { try { const w = new WebSocket(base.replace('http', 'ws') + '/v1/attach'); w.onopen = () => done(false); w.onerror = () => done(true); } catch { done(true); } });
    out.popup = window.open(base + '/ui/') === null;
    return out;
  }, { base, path: '/v1/console' });
  must(Object.values(reach).every((v) => v), 'the frame of the display reaches ' + JSON.stringify(reach));
  must((await page.locator('iframe').getAttribute('sandbox')) === 'allow-scripts', 'the frame is not sandboxed');
  await inside.evaluate(() => { location.href = 'data:text/html,away'; }).catch(() => undefined);
  await page.waitForTimeout(500);
  must(!page.frames().some((f) => f.url().startsWith('data:')), 'the frame has gone elsewhere');
  page.tried = false;
  passed('the frame of the display reaches nothing');

  await page.getByRole('button', { name: 'Hide the display' }).click();
  await page.locator('iframe').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Show the display' }).click();
  await page.locator('iframe[data-state=shown]').waitFor();
  const other = await open(browser);
  await go(other, box(s, 'browser'));
  await other.getByRole('button', { name: 'Show the display' }).click();
  await other.locator('iframe[data-state=shown]').waitFor();
  await page.getByText('The display has ended').waitFor();
  passed('a later viewer ends the earlier');

  await other.getByRole('button', { name: 'Remove', exact: true }).last().click();
  await other.getByText('The session has no browser').waitFor({ timeout: 120000 });
  passed('a browser that is shown is removed');
  clean(other);
  await ask('DELETE', `${at}?force=true&workspace=true`, undefined, true);
}

const parts = { approvals, changes, surf };

(async () => {
  const browser = await chromium.connectOverCDP(env.CONSOLE_DEVTOOLS);
  try {
    for (const name of env.CONSOLE_PARTS.split(',')) await parts[name](browser);
  } finally {
    await browser.close();
  }
})().then(() => process.exit(0), (e) => {
  console.error(String(e.stack ?? e).slice(0, 4000));
  process.exit(1);
});
