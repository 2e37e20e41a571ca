// A harness as an adapter of a coding agent is one. Its runtime is a server inside, which
// answers a prompt by what the prompt comes to as a command.
import { until } from './common.mjs'

// Answers prompts by what a command says, over HTTP, and echoes over a WebSocket.
export const server = `
import base64, hashlib, http.server, subprocess, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    turns = 0
    def do_GET(self):
        if self.headers.get('Upgrade') == 'websocket':
            key = base64.b64encode(hashlib.sha1((self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest())
            self.wfile.write(b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + key + b'\\r\\n\\r\\n')
            head = self.rfile.read(2); mask = self.rfile.read(4); data = self.rfile.read(head[1] & 127)
            said = (self.path + ' ').encode() + bytes(b ^ mask[i % 4] for i, b in enumerate(data))
            self.wfile.write(bytes([129, len(said)]) + said)
            self.close_connection = True
            return
        self.answer(self.path.encode())
    def do_POST(self):
        Handler.turns += 1
        line = self.rfile.read(int(self.headers['Content-Length'])).decode()
        out = subprocess.run(['sh', '-c', line], capture_output=True).stdout
        self.answer(str(Handler.turns).encode() + b' ' + out)
    def answer(self, body):
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
`
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }

// A harness as an adapter of a coding agent is one: it sets up its runtime once for an
// identity, starts it for a session, and finds it again by its port.
export function makeHarness() {
  const open = async ({ sandboxSession, sessionId, sessionWorkDir, resumeFrom }) => {
    const port = sandboxSession.ports[0]
    if (!resumeFrom) await sandboxSession.spawn({ command: 'exec python3 "$BRIDGE"/server.py "$PORT"', workingDirectory: sessionWorkDir, env: { PORT: String(port), BRIDGE: sandboxSession.defaultWorkingDirectory + '/bridge' } })
    const { url, headers } = await sandboxSession.getPortEndpoint({ port, protocol: 'http' })
    await until('the server inside', async () => (await fetch(url + '/up', { headers }).catch(() => ({}))).status == 200)
    const turn = async ({ prompt, emit }) => {
      const done = (async () => {
        emit({ type: 'stream-start' })
        const answer = await (await fetch(url + '/turn?x=1', { method: 'POST', body: typeof prompt == 'string' ? prompt : prompt.content, headers })).text()
        emit({ type: 'text-start', id: '0' })
        emit({ type: 'text-delta', id: '0', delta: answer })
        emit({ type: 'text-end', id: '0' })
        emit({ type: 'finish-step', finishReason: { unified: 'stop' }, usage })
        emit({ type: 'finish', finishReason: { unified: 'stop' }, totalUsage: usage })
      })()
      return { done, submitToolResult: async () => {} }
    }
    const state = async () => ({ type: 'resume-session', harnessId: 'scripted', specificationVersion: 'harness-v1', data: { port } })
    return { sessionId, isResume: !!resumeFrom, doPromptTurn: turn, doContinueTurn: turn, doCompact: async () => {}, doSuspendTurn: state, doDetach: state, doStop: state, doDestroy: async () => {} }
  }
  return {
    specificationVersion: 'harness-v1', harnessId: 'scripted', builtinTools: {},
    getBootstrap: async () => ({ harnessId: 'scripted', bootstrapDir: 'bridge', files: [{ path: 'bridge/server.py', content: server }], commands: [{ command: 'echo set up >> log' }] }),
    doStart: open,
  }
}

export const harness = makeHarness()
