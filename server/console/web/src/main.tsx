import 'uplot/dist/uPlot.min.css';
import '@xterm/xterm/css/xterm.css';
import './style.css';
import { render, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, key, login, onEnded, Problem, send, setKey } from './api';
import { allNotices, attempt, dismiss, live, onNotices, session } from './state';
import type { Me } from './types';
import { Empty, Loading, Tag, Trouble, useLive } from './ui';
import { visible } from './format';
import { Overview } from './views/overview';
import { SandboxPage } from './views/sandbox';
import { Approvals } from './views/approvals';
import { Egress, EvidenceView, Violations } from './views/records';
import { Tenants } from './views/tenants';
import { Settings } from './views/settings';
import { Timeline } from './views/timeline';

// The secret of a link is taken out of the address before anything else is done, so
// that it stays in no history.
function secretOf(): string {
  const found = /^#login=([A-Z2-7]{26})$/.exec(location.hash);
  if (found) history.replaceState(null, '', location.pathname + '#/');
  return found ? found[1] : '';
}

const routes: { path: string; name: string; admin?: boolean }[] = [
  { path: '', name: 'Overview' }, { path: 'approvals', name: 'Approvals' }, { path: 'violations', name: 'Violations' }, { path: 'egress', name: 'Egress' },
  { path: 'evidence', name: 'Evidence' }, { path: 'timeline', name: 'Timeline' }, { path: 'tenants', name: 'Tenants' }, { path: 'settings', name: 'Settings', admin: true },
];

function useRoute(): string[] {
  const read = () => location.hash.replace(/^#\/?/, '').split('/').map((p) => { try { return decodeURIComponent(p); } catch { return ''; } });
  const [route, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}

function View({ route }: { route: string[] }): JSX.Element {
  switch (route[0]) {
    case '': return <Overview />;
    case 's': return <SandboxPage key={route.slice(1, 4).join('/')} tenant={route[1] === '-' ? '' : route[1]} provider={route[2] ?? ''} name={route[3] ?? ''} tab={route[4] || 'stats'} />;
    case 'approvals': return <Approvals />;
    case 'violations': return <Violations />;
    case 'egress': return <Egress />;
    case 'evidence': return <EvidenceView />;
    case 'timeline': return <Timeline />;
    case 'tenants': return <Tenants />;
    case 'settings': return <Settings />;
  }
  return <Empty title="There is no such page"><a href="#/">Go to the overview</a></Empty>;
}

function Notices(): JSX.Element {
  const [, set] = useState(0);
  useEffect(() => onNotices(() => set((n) => n + 1)), []);
  return (
    <div class="notices" role="status" aria-live="polite">
      {allNotices().map((n) => <div key={n.id} class={n.bad ? 'notice bad' : 'notice'}><span>{visible(n.text)}</span><button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(n.id)}>×</button></div>)}
    </div>
  );
}

function Connection(): JSX.Element {
  useLive();
  return <span class={live.connected ? 'link-state on' : 'link-state'} title={live.problem}>{live.connected ? 'live' : 'not connected'}</span>;
}

function Shell({ me }: { me: Me }): JSX.Element {
  useLive();
  const route = useRoute();
  const [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    setOpen(false);
    document.title = `${routes.find((r) => r.path === route[0])?.name ?? (route[0] === 's' ? visible(route[3]) : 'sandbox')} · sandbox`;
    if (!first.current) main.current?.querySelector('h1')?.focus({ preventScroll: true });
    first.current = false;
  }, [route[0], route[3]]);
  const logout = () => void attempt(async () => {
    await send('/v1/console', { method: 'DELETE' });
    setKey('');
    location.reload();
  });
  const waiting = live.approvals.length;
  return (
    <div class={open ? 'shell open' : 'shell'}>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <div class="bar">
        <a class="brand" href="#/"><img src="./icon.svg" alt="" width="22" height="22" />sandbox</a>
        <button type="button" class="menu" aria-expanded={open} aria-controls="nav" onClick={() => setOpen(!open)}>Menu{waiting > 0 && <Tag tone="warn">{waiting}</Tag>}</button>
      </div>
      <nav id="nav" class="side" aria-label="Console">
        <ul>
          {routes.filter((r) => !r.admin || me.role === 'admin').map((r) => (
            <li key={r.path}><a href={'#/' + r.path} aria-current={(route[0] === 's' ? '' : route[0]) === r.path ? 'page' : undefined}>{r.name}{r.path === 'approvals' && waiting > 0 && <Tag tone="warn">{waiting}</Tag>}</a></li>
          ))}
        </ul>
        <div class="who">
          <Connection />
          <div>{me.role}{me.tenant ? <> of <span class="mono">{visible(me.tenant)}</span></> : null}{me.session ? <>, session <span class="mono">{visible(me.session)}</span></> : null}</div>
          {me.readOnly && <Tag tone="info">read only</Tag>}
          <div class="soft">until {me.expires ? new Date(me.expires).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hour12: false }) : '–'}</div>
          <button type="button" onClick={logout}>Log out</button>
        </div>
      </nav>
      <main id="main" ref={main} tabIndex={-1}><View route={route} /></main>
      <Notices />
    </div>
  );
}

function Door({ title, children }: { title: string; children: JSX.Element | string }): JSX.Element {
  return <main class="door"><img src="./icon.svg" alt="" width="44" height="44" /><h1>{title}</h1><div class="soft">{children}</div></main>;
}

function App({ secret }: { secret: string }): JSX.Element {
  const [me, setMe] = useState<Me>();
  const [out, setOut] = useState<string>('');
  const [error, setError] = useState<Problem>();
  useEffect(() => {
    onEnded(() => {
      live.end();
      setKey('');
      setOut('The login has ended.');
    });
    void (async () => {
      try {
        if (secret) await login(secret);
        if (!key()) {
          setOut('You are not logged in.');
          return;
        }
        const who = await get<Me>('/v1/console');
        session.me = who;
        setMe(who);
        live.start(who.role === 'admin');
      } catch (e) {
        const p = e instanceof Problem ? e : new Problem(0, '', String(e));
        if (p.status === 401 || p.status === 403) setOut(p.message);
        else setError(p);
      }
    })();
  }, []);
  useEffect(() => {
    // What the user does keeps the login from expiring, what the page does by itself
    // does not: a request a minute says that somebody is there.
    let last = Date.now();
    const active = () => {
      if (!session.me || Date.now() - last < 60_000) return;
      last = Date.now();
      void get('/v1/console').catch(() => undefined);
    };
    for (const name of ['keydown', 'pointerdown']) addEventListener(name, active, { passive: true });
    return () => { for (const name of ['keydown', 'pointerdown']) removeEventListener(name, active); };
  }, []);
  if (out) return <Door title="sandbox"><><p>{visible(out)}</p><p>Make a link with <code>sandbox ui</code>, and open it in this browser. It works once, within a minute.</p></></Door>;
  if (error) return <Door title="sandbox"><Trouble error={error} retry={() => location.reload()} /></Door>;
  if (!me) return <Door title="sandbox"><Loading /></Door>;
  return <Shell me={me} />;
}

const secret = secretOf();
addEventListener('hashchange', () => { if (/^#login=/.test(location.hash)) location.reload(); });
render(<App secret={secret} />, document.getElementById('app')!);
