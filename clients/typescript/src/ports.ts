import { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { one, type Api, type Schemas } from './api.js'
import { errorOf, invalid } from './errors.js'
import { part, type CallOptions } from './transport.js'

export type PortInfo = Schemas['Port']
export type ShareInfo = Schemas['Share']

/** A link to a port inside. */
export interface Share extends ShareInfo {
  /** The link, with its secret. */
  url: string
  /** The secret; undefined of a public one. */
  secret?: string | undefined
}

/** Where a port is reached by path, with what requests to it need. */
export interface PortAddress {
  url: string
  /** The headers that every request needs; they do not get inside. */
  headers: Readonly<Record<string, string>>
  /** The unix socket of the daemon, where it has one: an address of HTTP alone does not reach it then. */
  socketPath?: string | undefined
}

/** The TCP ports at which programs inside listen. */
export class Ports {
  readonly #api: Api
  readonly #name: string
  readonly #token: string | undefined

  /** @internal */
  constructor(api: Api, name: string, token: string | undefined) {
    this.#api = api
    this.#name = name
    this.#token = token
  }

  async list(options: CallOptions = {}): Promise<readonly PortInfo[]> {
    const list = await this.#api.call<Schemas['PortList']>({ op: 'list ports', method: 'GET', path: one(this.#name, '/ports'), again: true, signal: options.signal })
    return list.items
  }

  /**
   * Connects to a port of the loopback interface inside. While no program listens
   * there the error is PROVIDER.UNAVAILABLE. The signal ends the connecting alone.
   */
  async connect(port: number, options: CallOptions = {}): Promise<Duplex> {
    const op = 'dial'
    const { socket } = await this.#api.socket({ op, path: one(this.#name, `/ports/${checkedPort(op, port)}`), signal: options.signal })
    return new Connection(socket)
  }

  /** Makes a link to a port, which holds for ttl seconds; an hour without. A public one has no secret. */
  async share(port: number, options: CallOptions & { ttl?: number | undefined; public?: boolean | undefined } = {}): Promise<Share> {
    const op = 'share port'
    const json: Schemas['SharePort'] = { port: checkedPort(op, port) }
    if (options.ttl !== undefined) json.ttlSeconds = Math.ceil(options.ttl)
    if (options.public !== undefined) json.public = options.public
    const made = await this.#api.call<Schemas['NewShare']>({ op, method: 'POST', path: one(this.#name, '/shares'), json, signal: options.signal })
    return { ...made.share, url: made.url, ...(made.secret === undefined ? {} : { secret: made.secret }) }
  }

  /** Lists the links that are in force, without their secrets. */
  async shares(options: CallOptions = {}): Promise<readonly ShareInfo[]> {
    const list = await this.#api.call<Schemas['ShareList']>({ op: 'list shares', method: 'GET', path: one(this.#name, '/shares'), again: true, signal: options.signal })
    return list.items
  }

  /** Ends a link and cuts its connections. */
  async revoke(id: string, options: CallOptions = {}): Promise<void> {
    const op = 'revoke share'
    await this.#api.call({ op, method: 'DELETE', path: one(this.#name, `/shares/${part(op, 'id', id)}`), signal: options.signal })
  }

  /** Where the HTTP server at a port is reached with the credentials of the client. */
  url(port: number): PortAddress {
    const { transport, headers } = this.#api
    return {
      url: `${transport.base}${one(this.#name, `/ports/${checkedPort('port address', port)}/`)}`,
      headers: this.#token === undefined ? headers : { ...headers, Authorization: `Bearer ${this.#token}` },
      ...(transport.socketPath === undefined ? {} : { socketPath: transport.socketPath }),
    }
  }
}

function checkedPort(op: string, port: number): number {
  if (!Number.isInteger(port) || port < 1 || port > 65535) throw invalid(op, 'port', 'it is no number from 1 to 65535')
  return port
}

const eof = '{"type":"eof"}'
const maxData = 32 << 10

/** A connection over a WebSocket: binary frames are its bytes, and a text frame ends one direction. */
class Connection extends Duplex {
  readonly #socket: WebSocket
  #ended = false

  constructor(socket: WebSocket) {
    super({ allowHalfOpen: true })
    this.#socket = socket
    socket.on('message', (data: Buffer, binary: boolean) => {
      if (this.#ended) return
      if (binary) {
        if (!this.push(data)) socket.pause()
      } else if (data.toString('utf8') === eof) {
        this.#ended = true
        this.push(null)
      } else this.destroy(errorOf('PROVIDER.UNAVAILABLE', 'the other side does not speak as it should', { op: 'read' }))
    })
    socket.on('close', (code: number) => {
      if (this.#ended) return
      this.#ended = true
      if (code === 1000) this.push(null)
      else this.destroy(errorOf('PROVIDER.UNAVAILABLE', 'the connection ended', { op: 'read' }))
    })
  }

  override _read(): void {
    this.#socket.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const send = (at: number): void => {
      if (at >= chunk.length) {
        done()
        return
      }
      this.#socket.send(chunk.subarray(at, at + maxData), (error) => {
        if (error == null) send(at + maxData)
        else done(errorOf('PROVIDER.UNAVAILABLE', 'the connection ended', { op: 'write', cause: error }))
      })
    }
    send(0)
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#socket.readyState !== this.#socket.OPEN) done()
    else this.#socket.send(eof, () => done())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.terminate()
    done(error)
  }
}
