import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { socket } from '../api';
import type { Said } from '../display';
import { Empty } from '../ui';
import type { At } from './sandbox';

// mostWaiting is how many bytes may wait for the viewer: a VNC server that sends more
// than it was asked for is not one of ours.
const mostWaiting = 64 << 20;

// DisplayView shows the display of a browser. The page connects, because the login is
// its own, and hands the bytes to a viewer in a frame that has nothing else: the frame
// is of an opaque origin, and the policy of its document allows no request.
export function DisplayView({ at }: { at: At }): JSX.Element {
  const frame = useRef<HTMLIFrameElement>(null);
  const [state, setState] = useState<'connecting' | 'shown' | string>('connecting');
  useEffect(() => {
    const ws = socket(at.base + '/browser/display', at.tenant);
    const { port1, port2 } = new MessageChannel();
    let password: string | undefined;
    let ready = false;
    let given = false;
    let waiting = 0;
    const end = (why: string) => { setState((s) => (s === 'connecting' || s === 'shown' ? why : s)); ws.close(); };
    const give = () => {
      if (!ready || given || password === undefined) return;
      given = true;
      frame.current!.contentWindow!.postMessage({ password }, '*', [port2]); // an opaque origin has no name
    };
    const ask = (e: MessageEvent) => {
      if (e.source !== frame.current?.contentWindow || e.data !== 'ready') return;
      ready = true;
      give();
    };
    addEventListener('message', ask);
    port1.onmessage = (e: MessageEvent<ArrayBuffer | Said>) => {
      const said = e.data;
      if (said instanceof ArrayBuffer) {
        if (ws.readyState === WebSocket.OPEN) ws.send(said);
      } else if ('taken' in said) waiting -= Number(said.taken) || 0;
      else if ('shown' in said) setState((s) => (s === 'connecting' ? 'shown' : s));
      else end(String(said.ended).slice(0, 200));
    };
    ws.onmessage = (e: MessageEvent<ArrayBuffer | string>) => {
      const got = e.data;
      if (typeof got !== 'string') {
        waiting += got.byteLength;
        if (waiting > mostWaiting) end('The display sends more than can be shown');
        else port1.postMessage(got, [got]);
      } else if (password === undefined) {
        password = String(JSON.parse(got).password ?? '');
        give();
      } else end('The display has ended');
    };
    ws.onclose = () => end('The display has ended. One browser has one viewer: the last one that has asked.');
    return () => {
      removeEventListener('message', ask);
      ws.onclose = null;
      ws.close();
      port1.close();
    };
  }, [at.base]);
  const open = state === 'connecting' || state === 'shown';
  return (
    <div class="display">
      {open ? <iframe ref={frame} src="./display.html" sandbox="allow-scripts" referrerpolicy="no-referrer" title="The display of the browser" data-state={state} /> : <Empty title={state} />}
      {state === 'connecting' && <p class="soft" role="status">Connecting to the display…</p>}
    </div>
  );
}
