// Uses the web console in a real Chromium. The environment has the address of
// DevTools, that of the daemon, and tokens. Each check that has passed is one line; the
// first that fails ends the program with an error.
const { chromium } = require('playwright-core');
const { execFile } = require('node:child_process');
const { promisify } = require('node:util');

const env = process.env;
const base = env.CONSOLE_BASE;
const patience = 60000;

const began = Date.now();
const passed = (name) => console.log(`passed ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
function must(ok, what) {
  if (!ok) throw new Error(what);
}

async function sandbox(token, ...args) {
  const { stdout } = await promisify(execFile)('sandbox', ['--server', base, ...args], { env: { ...env, SANDBOX_TOKEN: token } });
  return stdout.trim();
}

async function ask(token, method, path, body, headers = {}) {
  const json = body !== undefined && typeof body !== 'string';
  const res = await fetch(base + path, { method, headers: { Authorization: 'Bearer ' + token, ...(json ? { 'Content-Type': 'application/json' } : {}), ...headers }, body: json ? JSON.stringify(body) : body });
  const text = await res.text();
  if (!res.ok && !headers.accepts) throw new Error(`${method} ${path}: ${res.status} ${text}`);
  try { return JSON.parse(text); } catch { return text; }
}

// open logs a new context in and returns its page. What must never happen on it fails
// the program.
async function open(browser, token, ...flags) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.faults = [];
  page.on('pageerror', (e) => page.faults.push('error: ' + e.message));
  page.on('dialog', (d) => { page.faults.push('dialog: ' + d.message()); void d.dismiss(); });
  page.on('request', (r) => { if (!r.url().startsWith(base + '/') && !r.url().startsWith('blob:' + base)) page.faults.push('request: ' + r.url()); });
  page.on('console', (m) => { if (/Content Security Policy|Trusted/.test(m.text())) page.faults.push('policy: ' + m.text()); });
  const link = await sandbox(token, 'ui', ...flags);
  page.secret = link.split('#login=')[1];
  await page.goto(link);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return page;
}

const go = (page, hash) => page.evaluate((h) => { location.hash = h; }, hash);
const box = (s, tab) => `#/s/${encodeURIComponent(s.tenant || '-')}/${s.provider}/${s.name}/${tab}`;
const clean = (page) => must(page.faults.length === 0, page.faults.join('\n'));

async function use(browser) {
  const admin = env.CONSOLE_ADMIN;
  const page = await open(browser, admin);
  must(!page.url().includes(page.secret) && (await page.evaluate(() => history.length)) <= 2, 'the secret stays in the address ' + page.url());
  must((await page.evaluate(() => document.cookie)) === '', 'a script can read the cookie');
  passed('log in by the link');

  await sandbox(admin, '--session', 'seen', 'run', '--', 'true');
  const row = page.getByRole('table', { name: 'Sandboxes' }).getByRole('row').filter({ hasText: 'seen' });
  await row.waitFor();
  const s = (await ask(admin, 'GET', '/v1/sandboxes?session=seen')).items[0];
  passed('a sandbox appears');

  const plot = page.locator('.plot').first();
  const before = Number(await plot.getAttribute('data-points'));
  await ask(admin, 'POST', `/v1/sandboxes/${s.name}/processes`, { line: 'i=0; while :; do i=$((i+1)); done', tag: 'busy' });
  await page.waitForFunction(({ before }) => {
    const p = document.querySelector('.plot');
    return Number(p.dataset.points) >= before + 2 && parseFloat(document.querySelector('.chart strong').textContent) > 0.02;
  }, { before }, { polling: 200 });
  passed('a chart moves');
  await row.getByRole('link').click();
  await page.getByRole('link', { name: 'Processes' }).click();
  await page.getByLabel('Signal').selectOption('KILL');
  await page.getByRole('button', { name: /^Send KILL/ }).click();
  await page.getByText('ended KILL').waitFor();
  passed('a process gets a signal');

  await page.getByRole('link', { name: 'Terminal' }).click();
  await page.locator('.tag', { hasText: 'running' }).nth(1).waitFor();
  await page.keyboard.type('echo con$((40+2))sole; echo text > notes.md\n');
  await page.waitForFunction(() => document.querySelector('.xterm-rows')?.textContent.includes('con42sole'), null, { polling: 200 });
  passed('a command in the terminal');

  await page.getByRole('link', { name: 'Files', exact: true }).click();
  await page.getByRole('button', { name: 'notes.md', exact: true }).click();
  const editor = page.getByLabel(/^Content of/);
  await editor.fill('edited\n');
  await page.keyboard.press('Control+s');
  await page.getByText('Saved').first().waitFor();
  must((await ask(admin, 'GET', `/v1/sandboxes/${s.name}/files/workspace/notes.md`)) === 'edited\n', 'the file is not what was saved');
  await ask(admin, 'PUT', `/v1/sandboxes/${s.name}/files/workspace/notes.md`, 'by another');
  await editor.fill('by the page');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  must((await ask(admin, 'GET', `/v1/sandboxes/${s.name}/files/workspace/notes.md`)) === 'by another', 'a change was written over');
  passed('a file is edited');

  await page.getByRole('link', { name: 'Processes' }).click();
  await page.getByLabel('Command').fill('python3 -m http.server --bind 127.0.0.1 8000');
  await page.getByRole('button', { name: 'Start in the background' }).click();
  await page.getByRole('link', { name: 'Ports' }).click();
  await page.getByRole('button', { name: 'Preview port 8000' }).click();
  const opening = page.context().waitForEvent('page');
  await page.getByRole('link', { name: 'Open the preview' }).click();
  const preview = await opening;
  await preview.getByText('notes.md').waitFor();
  const seen = await preview.evaluate(() => ({ origin: location.origin, cookie: document.cookie, opener: window.opener !== null, key: localStorage.getItem('sandbox-console-key'), referrer: document.referrer }));
  must(seen.origin !== base && /^http:\/\/8000-/.test(seen.origin) && seen.cookie === '' && !seen.opener && !seen.key && seen.referrer === '', 'the preview has ' + JSON.stringify(seen));
  const sent = (await page.context().cookies(seen.origin)).map((c) => c.name);
  must(!sent.some((n) => n.includes('console')), 'the preview is sent ' + sent);
  const reach = await preview.evaluate(async (base) => {
    const tries = [['GET', '/v1/console', {}], ['GET', '/v1/sandboxes', { credentials: 'include' }], ['POST', '/ui/login', { credentials: 'include', body: '{"secret":"x"}' }], ['DELETE', '/v1/console', { credentials: 'include' }]];
    const out = [];
    for (const [method, path, o] of tries) out.push(await fetch(base + path, { method, ...o }).then((r) => r.status, () => 0));
    out.push(await new Promise((done) => { const w = new WebSocket(base.replace('http', 'ws') + '/v1/attach', ['sandbox-console']); w.onopen = () => done(101); w.onerror = () => done(0); }));
    const frame = document.createElement('iframe');
    frame.src = base + '/ui/';
    document.body.append(frame);
    await new Promise((done) => { frame.onload = done; setTimeout(done, 1000); });
    let inside = '';
    try { inside = frame.contentDocument?.body?.textContent ?? ''; } catch { inside = ''; }
    out.push(inside.includes('Overview') ? 200 : 0);
    return out;
  }, base);
  must(reach.every((n) => n === 0), 'the preview has reached the console: ' + reach);
  await preview.close();
  passed('a preview of a port, which reaches nothing');

  const asking = ask(admin, 'POST', `/v1/sandboxes/${s.name}/exec`, { args: ['curl', '-sS', '-m', '5', 'http://approve.example/'], ask: true });
  await go(page, '#/approvals');
  const question = page.getByRole('region', { name: /approve\.example/ });
  await question.getByRole('button', { name: 'Allow once' }).click();
  await question.waitFor({ state: 'detached' });
  await asking;
  await go(page, '#/egress');
  await page.getByRole('table', { name: 'Egress' }).getByRole('row').filter({ hasText: 'approve.example' }).filter({ hasText: 'allow' }).first().waitFor();
  passed('a request is approved');

  const evil = await open(browser, env.CONSOLE_EVIL);
  await evil.getByText('There is no sandbox yet').waitFor();
  await go(evil, box({ ...s, tenant: '' }, 'stats'));
  await evil.getByText('there is no such sandbox').waitFor();
  await go(evil, '#/settings');
  await evil.getByText('this needs a token of the role admin').waitFor();
  clean(evil);
  passed('another tenant sees nothing');

  const reader = await open(browser, admin, '--read-only');
  await go(reader, box(s, 'files'));
  await reader.getByRole('button', { name: 'notes.md', exact: true }).click();
  must((await reader.getByLabel(/^Content of/).getAttribute('readonly')) !== null, 'a login that only reads can edit');
  must((await reader.getByRole('button', { name: /Remove|Recreate|Freeze|Save/ }).count()) === 0 && (await reader.getByRole('link', { name: 'Terminal' }).count()) === 0, 'a login that only reads is offered a change');
  must((await reader.evaluate(async (path) => (await fetch(path, { method: 'DELETE', headers: { 'Sandbox-Console': localStorage.getItem('sandbox-console-key') } })).status, '/v1/sandboxes/' + s.name)) === 403, 'a login that only reads can remove');
  clean(reader);
  passed('a login that only reads');

  await ask(admin, 'DELETE', '/v1/tokens/' + env.CONSOLE_EVIL_ID);
  await evil.getByText('The login has ended.').waitFor();
  must((await evil.evaluate(() => localStorage.length)) === 0, 'the key stays');
  passed('a login ends with its token');

  await reader.getByRole('button', { name: 'Log out' }).click();
  await reader.getByText('You are not logged in.').waitFor();
  passed('log out');
  clean(page);
  return page;
}

// hostile are texts that would run or mislead where one of them became markup.
const hostile = ['<img src=x onerror=pwned(1)>', '"><script>pwned(2)</script>', "'-pwned(3)-'", '<svg onload=pwned(4)>', 'javascript:pwned(5)', '{{constructor.constructor("pwned(6)")()}}', '</textarea><iframe srcdoc="<script>parent.pwned(7)</script>">', '\u202egpj.exe', '${pwned(8)}', '<a href="javascript:pwned(9)">x</a>', '<style>*{display:none}</style>', '<base href=//evil.example>', '<meta http-equiv=refresh content=0;url=//evil.example>', '<math><mtext><img src=x onerror=pwned(10)>'];

async function attack(browser) {
  const admin = env.CONSOLE_ADMIN;
  const made = await ask(admin, 'POST', '/v1/sandboxes', { session: 'hostile', metadata: Object.fromEntries(hostile.slice(0, 7).map((h, i) => ['m' + i, h])) });
  const s = (await ask(admin, 'GET', '/v1/sandboxes?session=hostile')).items[0];
  must(made.name === s.name, 'the sandbox is another one');
  const at = `/v1/sandboxes/${s.name}`;
  const names = hostile.map((h) => h.replace(/\//g, '\u2215').slice(0, 120));
  for (const n of names) await ask(admin, 'PUT', `${at}/files/workspace/${encodeURIComponent(n)}`, hostile.join('\n'));
  for (const [n, text] of [['page.html', '<script>parent.pwned(20)</script>'], ['picture.svg', '<svg xmlns="http://www.w3.org/2000/svg" onload="pwned(21)"><script>pwned(22)</script></svg>'], ['not.png', '<script>pwned(23)</script>']]) await ask(admin, 'PUT', `${at}/files/workspace/${n}`, text);
  const refused = { accepts: 'a refusal' };
  for (const h of hostile) await ask(admin, 'POST', `${at}/exec`, { args: ['rm', '-rf', '/', h] }, refused);
  for (const h of hostile.slice(0, 6)) await ask(admin, 'POST', `${at}/exec`, { args: ['curl', '-sS', '-m', '2', 'http://' + h.replace(/[^a-z]/gi, '-').replace(/^-+/, 'x') + '.example/' + encodeURIComponent(h)] }, refused);
  await ask(admin, 'POST', `${at}/processes`, { args: ['sh', '-c', 'exec -a "$0" sleep 60', hostile[0]], tag: hostile[1] }, refused);
  await ask(admin, 'POST', `${at}/processes`, { args: ['sh', '-c', 'sleep 60 # ' + hostile[3]] }, refused);
  const asking = ask(admin, 'POST', `${at}/exec`, { args: ['curl', '-m', '280', '-A', hostile[0], 'http://hostile-ask.example/', hostile[3]], ask: true }, refused);
  const names2 = {};
  for (const who of [{ session: hostile[0] }, { session: 's', agent: hostile[1] }, { session: 't', labels: { a: hostile[3] } }]) names2[JSON.stringify(who)] = await ask(admin, 'POST', '/v1/sandboxes', who, refused);

  const page = await open(browser, admin);
  await page.evaluate(() => { window.pwned = (n) => { (window.hits ??= []).push(n); }; });
  const marks = async (where) => {
    const bad = await page.evaluate(() => ({ hits: window.hits ?? [], inserted: document.querySelectorAll('img[src="x"], iframe, object, embed, base, [onerror], [onload], svg[onload], a[href^="javascript"], meta[http-equiv], script:not([src])').length, styles: document.querySelectorAll('style').length, title: document.title }));
    must(bad.hits.length === 0 && bad.inserted === 0 && bad.styles === 0, `${where}: ${JSON.stringify(bad)}`);
  };
  for (const [name, hash] of [['overview', '#/'], ['approvals', '#/approvals'], ['violations', '#/violations'], ['egress', '#/egress'], ['evidence', '#/evidence'], ['timeline', '#/timeline'], ['tenants', '#/tenants'], ['settings', '#/settings'],
    ...['stats', 'processes', 'ports', 'browser', 'changes', 'egress', 'violations', 'evidence', 'timeline'].map((t) => ['sandbox ' + t, box(s, t)])]) {
    await go(page, hash);
    await page.waitForFunction(() => !document.querySelector('main .empty[role=status]'), null, { polling: 200 });
    await marks(name);
    const first = page.locator('.rows .row button.link').first();
    if (await first.count()) {
      await first.click();
      await marks(name + ', opened');
    }
    passed('no script runs: ' + name);
  }
  await go(page, box(s, 'stats'));
  await page.getByText('<img src=x onerror=pwned(1)>').first().waitFor(); // it is shown, as text
  await go(page, '#/approvals');
  await page.getByRole('region', { name: /hostile-ask\.example/ }).getByRole('button', { name: 'Deny' }).click();
  await asking;

  await go(page, box(s, 'files'));
  for (const name of [...names.slice(0, 5), 'page.html', 'picture.svg', 'not.png']) {
    await page.locator('.rows .row button.link').filter({ hasText: name.includes('\u202e') ? 'gpj' : name }).first().click();
    await page.locator('.editor, .picture, .card .empty').first().waitFor();
    await marks('file ' + name);
    must((await page.locator('img.picture').count()) === 0, `${name} is shown as a picture`);
    passed('no script runs: file ' + name);
  }
  must((await page.locator('main').innerText()).includes('\\u{202e}'), 'a character that changes the order is not shown');
  passed('names that mislead');

  await go(page, box(s, 'terminal'));
  await page.locator('.tag', { hasText: 'running' }).nth(1).waitFor();
  const sequences = ['\\033]0;pwned title\\007', '\\033]2;pwned title\\033\\\\', '\\033]8;;javascript:pwned(30)\\033\\\\click me\\033]8;;\\033\\\\', '\\033]8;;http://evil.example/\\033\\\\or me\\033]8;;\\033\\\\', '\\033]52;c;cHduZWQ=\\007', '\\033]1337;File=inline=1:AAAA\\007', '\\033P+q544e\\033\\\\', '\\033[21t', '\\033]10;?\\007', '\\033]50;pwned\\007', '<img src=x onerror=pwned(31)>', '\\033[6n'];
  await page.keyboard.type(`printf '${sequences.join('')}'; echo; echo the''end\n`);
  await page.waitForFunction(() => document.querySelector('.xterm-rows')?.textContent.includes('theend'), null, { polling: 200 });
  const opened = [];
  page.context().on('page', (p) => opened.push(p.url()));
  const rows = await page.locator('.xterm-rows').boundingBox();
  const line = await page.evaluate(() => [...document.querySelectorAll('.xterm-rows > div')].findIndex((d) => d.textContent.includes('click me') && !d.textContent.includes('printf')));
  if (line >= 0) {
    const height = await page.evaluate(() => document.querySelector('.xterm-rows > div').getBoundingClientRect().height);
    await page.mouse.move(rows.x + 20, rows.y + height * (line + 0.5));
    await page.mouse.click(rows.x + 20, rows.y + height * (line + 0.5));
  }
  await marks('terminal');
  must(opened.length === 0 && !(await page.title()).includes('pwned'), `the terminal has opened ${opened} or has the title ${await page.title()}`);
  must(page.url().startsWith(base + '/ui/#/s/'), 'the page has gone to ' + page.url());
  passed('sequences of a terminal');
  clean(page);
}

(async () => {
  const browser = await chromium.connectOverCDP(env.CONSOLE_DEVTOOLS);
  try {
    await Promise.all([use(browser), attack(browser)]);
  } finally {
    await browser.close();
  }
})().then(() => process.exit(0), (e) => {
  console.error(String(e.stack ?? e).slice(0, 4000));
  process.exit(1);
});
