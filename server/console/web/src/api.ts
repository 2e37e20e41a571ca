// The daemon's HTTP interface. Every request has the key of the login, which the page
// keeps in the storage of its own origin; the cookie goes with it by itself.

const KEY = 'sandbox-console-key';

export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly field = '', readonly hint = '') {
    super(message);
  }
}

export function key(): string {
  return localStorage.getItem(KEY) ?? '';
}

export function setKey(value: string): void {
  if (value) localStorage.setItem(KEY, value);
  else localStorage.removeItem(KEY);
}

const ended = new Set<() => void>();

// onEnded is called when the daemon says that the login has ended.
export function onEnded(fn: () => void): void {
  ended.add(fn);
}

export interface Ask {
  method?: string;
  tenant?: string;
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  background?: boolean;
  signal?: AbortSignal;
}

async function problemOf(res: Response): Promise<Problem> {
  try {
    const p = await res.json();
    return new Problem(res.status, String(p.code ?? ''), String(p.detail ?? p.title ?? res.status), String(p.field ?? ''), String(p.hint ?? ''));
  } catch {
    return new Problem(res.status, '', `the daemon has answered with ${res.status}`);
  }
}

export async function send(path: string, o: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = { 'Sandbox-Console': key(), ...o.headers };
  if (o.tenant) headers['Sandbox-Tenant'] = o.tenant;
  if (o.background) headers['Sandbox-Background'] = '1';
  let body = o.body;
  if (o.json !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(o.json);
  }
  let res: Response;
  try {
    res = await fetch(path, { method: o.method ?? 'GET', headers, body, signal: o.signal, credentials: 'same-origin', redirect: 'error', cache: 'no-store' });
  } catch (e) {
    if (o.signal?.aborted) throw e;
    throw new Problem(0, 'UNREACHABLE', 'the daemon does not answer', '', 'see whether it runs');
  }
  if (res.ok || res.status === 304) return res;
  const p = await problemOf(res);
  if (res.status === 401) for (const fn of ended) fn();
  throw p;
}

export async function get<T>(path: string, o: Ask = {}): Promise<T> {
  return (await send(path, o)).json() as Promise<T>;
}

export async function post<T>(path: string, json: unknown, o: Ask = {}): Promise<T> {
  const res = await send(path, { ...o, method: o.method ?? 'POST', json });
  return (res.status === 204 ? undefined : await res.json()) as T;
}

export async function login(secret: string): Promise<void> {
  const res = await fetch('/ui/login', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ secret }), credentials: 'same-origin', redirect: 'error' });
  if (!res.ok) throw await problemOf(res);
  setKey(String((await res.json()).key));
}

// follow reads a stream of events until it ends or the signal aborts it.
export async function follow(path: string, o: Ask, event: (name: string, data: unknown) => void): Promise<void> {
  const res = await send(path, { ...o, background: true, headers: { Accept: 'text/event-stream' } });
  const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let at: number;
    while ((at = rest.indexOf('\n\n')) >= 0) {
      let name = 'message';
      let data = '';
      for (const line of rest.slice(0, at).split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7);
        else if (line.startsWith('data: ')) data += line.slice(6);
      }
      rest = rest.slice(at + 2);
      if (data) event(name, JSON.parse(data));
    }
  }
}

export function socket(path: string, tenant: string): WebSocket {
  // A page cannot set headers of a WebSocket: the key is a subprotocol.
  const protocols = ['sandbox-console', 'sandbox-console-key.' + key()];
  if (tenant) protocols.push('sandbox-console-tenant.' + tenant);
  const ws = new WebSocket(path.replace(/^/, location.origin.replace(/^http/, 'ws')), protocols);
  ws.binaryType = 'arraybuffer';
  return ws;
}
