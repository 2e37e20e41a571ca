/** Ports of a sandbox at a loopback address of this machine, for clients of HTTP and WebSockets. */
import { randomBytes } from 'node:crypto'
import { createServer, request, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Sandbox } from '../index.js'

/**
 * Serves ports of a sandbox over HTTP, each below a path that cannot be guessed: other
 * users of this machine can connect to the address too, and must not get in. It is
 * started by the first URL that is asked for, and does not keep the program running.
 */
export class PortServer {
  readonly #secrets = new Map<string, number>()
  readonly #open = new Set<Duplex>()
  #server: Promise<Server> | undefined

  constructor(private readonly sandbox: Sandbox) {}

  /** Returns the URL of a port, without a slash at its end. */
  async url(port: number, protocol: 'http' | 'ws'): Promise<string> {
    let secret = [...this.#secrets].find(([, p]) => p === port)?.[0]
    if (!secret) this.#secrets.set((secret = randomBytes(16).toString('hex')), port)
    const { port: at } = (await (this.#server ??= this.#listen())).address() as AddressInfo
    return `${protocol}://127.0.0.1:${at}/${secret}`
  }

  /** Forgets the URLs of all other ports. */
  retain(ports: ReadonlyArray<number>): void {
    for (const [secret, port] of this.#secrets) if (!ports.includes(port)) this.#secrets.delete(secret)
  }

  /** Ends the server and all connections. A later URL starts another. */
  async close(): Promise<void> {
    const server = await this.#server
    this.#server = undefined
    this.#secrets.clear()
    for (const socket of this.#open) socket.destroy()
    server?.close()
  }

  async #listen(): Promise<Server> {
    const server = createServer({ requestTimeout: 0 }, (request, response) => {
      void this.#forward(
        request,
        undefined,
        (upstream) => {
          response.writeHead(upstream.statusCode!, upstream.statusMessage, upstream.rawHeaders)
          upstream.pipe(response)
          upstream.on('error', () => response.destroy())
        },
        (status, text) => {
          if (response.headersSent) response.destroy()
          else response.writeHead(status, { 'Content-Type': 'text/plain' }).end(text)
        },
        response,
      )
    })
    server.on('connection', (socket) => {
      this.#open.add(socket)
      socket.on('close', () => this.#open.delete(socket))
    })
    server.on('upgrade', (request, socket, head) => {
      socket.on('error', () => socket.destroy())
      const fail = (status: number, text: string) =>
        socket.end(
          `HTTP/1.1 ${status} ${status === 404 ? 'Not Found' : 'Bad Gateway'}\r\nConnection: close\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
        )
      void this.#forward(
        request,
        (answer, upstream, rest) => {
          socket.write(headOf(answer))
          if (rest.length) socket.write(rest)
          if (head.length) upstream.write(head)
          upstream.on('error', () => socket.destroy())
          upstream.on('close', () => socket.destroy())
          socket.on('close', () => upstream.destroy())
          upstream.pipe(socket).pipe(upstream)
        },
        (answer) => {
          socket.write(headOf(answer))
          answer.pipe(socket)
        },
        fail,
        socket as Duplex,
      )
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', resolve)
    })
    server.unref()
    return server
  }

  /** Sends a request to the port that its path names. */
  async #forward(
    incoming: IncomingMessage,
    upgraded: ((answer: IncomingMessage, upstream: Duplex, rest: Buffer) => void) | undefined,
    answered: (answer: IncomingMessage) => void,
    failed: (status: number, text: string) => void,
    client: { on(event: 'close', listener: () => void): unknown },
  ): Promise<void> {
    const [, secret, rest] = /^\/([^/?]*)(.*)$/s.exec(incoming.url ?? '') ?? []
    const port = this.#secrets.get(secret ?? '')
    if (port === undefined) return failed(404, 'sandbox: no port of a sandbox has this address\n')
    let socket: Duplex
    try {
      socket = await this.sandbox.ports.connect(port)
    } catch (error) {
      return failed(502, `sandbox: port ${port}: ${(error as Error).message}\n`)
    }
    const headers = { ...incoming.headers, host: `localhost:${port}` }
    if (!upgraded) headers.connection = 'close'
    const outgoing = request({ createConnection: () => socket as never, method: incoming.method, path: rest!.startsWith('/') ? rest : '/' + rest, headers })
    client.on('close', () => socket.destroy())
    outgoing.on('response', answered)
    if (upgraded) outgoing.on('upgrade', upgraded)
    outgoing.on('error', (error) => failed(502, `sandbox: port ${port}: ${error.message}\n`))
    incoming.pipe(outgoing)
  }
}

/** The head of an answer, as it came. */
function headOf(answer: IncomingMessage): string {
  let text = `HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n`
  for (let i = 0; i < answer.rawHeaders.length; i += 2) text += `${answer.rawHeaders[i]}: ${answer.rawHeaders[i + 1]}\r\n`
  return text + '\r\n'
}
