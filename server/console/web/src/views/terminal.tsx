import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Terminal } from '@xterm/xterm';
import { FitAddon } from '@xterm/addon-fit';
import { socket } from '../api';
import { say } from '../state';
import { visible } from '../format';
import { Card, Tag } from '../ui';
import type { At } from './sandbox';

// withoutInlineStyles has style elements that are made while fn runs put their rules
// into constructed style sheets: the page's policy allows no inline style, and the
// terminal makes such elements.
function withoutInlineStyles<R>(fn: () => R): R {
  const own = Object.prototype.hasOwnProperty.call(document, 'createElement');
  const make = document.createElement;
  document.createElement = function (this: Document, name: string, o?: ElementCreationOptions): any {
    if (name.toLowerCase() !== 'style') return make.call(document, name, o);
    const el = make.call(document, 'template'); // which has no effect by itself
    const sheet = new CSSStyleSheet();
    const remove = el.remove.bind(el);
    document.adoptedStyleSheets.push(sheet);
    Object.defineProperty(el, 'textContent', { set: (text: string) => sheet.replaceSync(text), get: () => '' });
    el.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
      remove();
    };
    return el;
  } as typeof document.createElement;
  try {
    return fn();
  } finally {
    if (own) document.createElement = make;
    else delete (document as any).createElement;
  }
}

function theme() {
  const css = getComputedStyle(document.documentElement);
  const of = (n: string) => css.getPropertyValue(n).trim();
  return { background: of('--term'), foreground: of('--term-ink'), cursor: of('--accent'), selectionBackground: '#7aa2a066' };
}

export function TerminalView({ at }: { at: At }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [state, setState] = useState('connecting');
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const { term, fit } = withoutInlineStyles(() => {
      // Links of programs are not followed: neither those of OSC 8 nor plain ones.
      const term = new Terminal({ fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace', fontSize: 13, lineHeight: 1.25, scrollback: 5000, cursorBlink: false, theme: theme(), linkHandler: { activate: () => say('Links of programs in a sandbox are not opened') }, screenReaderMode: false });
      const fit = new FitAddon();
      term.loadAddon(fit);
      term.open(box.current!);
      fit.fit();
      return { term, fit };
    });
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    const repaint = () => { term.options.theme = theme(); };
    scheme.addEventListener('change', repaint);
    const ws = socket(at.base + '/pty', at.tenant);
    let over = false;
    let controls = 0;
    const encoder = new TextEncoder();
    const input = (bytes: Uint8Array) => {
      // Frames are small, so that one that is pasted does not fill the daemon's buffer at once.
      for (let i = 0; i < bytes.length && ws.readyState === WebSocket.OPEN; i += 16384) {
        const part = bytes.subarray(i, i + 16384);
        const frame = new Uint8Array(part.length + 1);
        frame.set(part, 1);
        ws.send(frame);
      }
    };
    ws.onopen = () => ws.send(JSON.stringify({ tty: { rows: term.rows, cols: term.cols }, env: { TERM: 'xterm-256color' }, extra: { ask: true } }));
    ws.onmessage = (e: MessageEvent) => {
      if (typeof e.data !== 'string') {
        const data = new Uint8Array(e.data as ArrayBuffer);
        if (data[0] === 1 || data[0] === 2) term.write(data.subarray(1));
        return;
      }
      const m = JSON.parse(e.data);
      if (m.type === 'started') {
        setState('running');
        term.focus();
      } else if (m.type === 'exit') {
        over = true;
        setState(`ended with status ${m.exit?.code ?? '?'}`);
      } else if (m.type === 'error') {
        over = true;
        setState('failed');
        say(String(m.error?.detail ?? m.error?.message ?? 'the terminal has failed'), true);
      }
    };
    ws.onclose = () => { if (!over) setState('disconnected'); };
    const typed = term.onData((s) => input(encoder.encode(s)));
    const binary = term.onBinary((s) => input(Uint8Array.from(s, (c) => c.charCodeAt(0))));
    const sized = term.onResize(({ rows, cols }) => { if (ws.readyState === WebSocket.OPEN) ws.send(JSON.stringify({ type: 'resize', id: ++controls, rows, cols })); });
    const watch = new ResizeObserver(() => withoutInlineStyles(() => fit.fit()));
    watch.observe(box.current!);
    (box.current as any).terminal = term;
    return () => {
      watch.disconnect();
      scheme.removeEventListener('change', repaint);
      typed.dispose();
      binary.dispose();
      sized.dispose();
      ws.onclose = null;
      ws.close();
      term.dispose();
    };
  }, [turn]);
  const tone = state === 'running' ? 'good' : state === 'connecting' ? '' : 'warn';
  return (
    <Card title="Terminal" note={<><Tag tone={tone}>{visible(state)}</Tag>{state !== 'running' && state !== 'connecting' && <button type="button" onClick={() => { setState('connecting'); setTurn((n) => n + 1); }}>Open another</button>}</>} wide>
      <div class="screen" ref={box} />
      <p class="soft">A shell as the session runs it. It ends when this page is left.</p>
    </Card>
  );
}
