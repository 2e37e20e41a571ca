// The viewer of a browser's display. It runs alone in a frame of an opaque origin, see
// display.tsx: what a VNC server sends, which code inside may have taken the place of,
// is parsed where there is no login, no storage and no network. All that it has is a
// port to the page.
import RFB from '@novnc/novnc';

// The messages to the page beside the bytes for the VNC server.
export type Said = { shown: true } | { taken: number } | { ended: string };

addEventListener('message', (e) => {
  const port = e.ports[0];
  if (e.source !== parent || !port || document.body.childElementCount > 0) return;
  const say = (m: Said) => port.postMessage(m);
  const channel = {
    binaryType: 'arraybuffer', protocol: '', readyState: 'open',
    onopen: null, onerror: null, onclose: null, onmessage: null as ((m: { data: ArrayBuffer }) => void) | null,
    send(data: Uint8Array) {
      const bytes = data.slice(); // the viewer writes over its buffer
      port.postMessage(bytes.buffer, [bytes.buffer]);
    },
    close() { this.readyState = 'closed'; },
  };
  const viewer = new RFB(document.body, channel, { credentials: { password: String(e.data.password) }, shared: true });
  viewer.viewOnly = true;
  viewer.scaleViewport = true;
  viewer.background = 'transparent';
  viewer.addEventListener('connect', () => say({ shown: true }));
  viewer.addEventListener('disconnect', () => say({ ended: 'The display has ended' }));
  viewer.addEventListener('securityfailure', () => say({ ended: 'The display has another password now' }));
  viewer.addEventListener('credentialsrequired', () => say({ ended: 'The display asks for what it did not before' }));
  port.onmessage = (m) => {
    channel.onmessage?.({ data: m.data });
    say({ taken: m.data.byteLength });
  };
});
parent.postMessage('ready', '*');
