import * as http from 'node:http'
import * as https from 'node:https'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { StringDecoder } from 'node:string_decoder'
import { WebSocket } from 'ws'
import { errorOf, invalid, problem, SandboxError } from './errors.js'

/** What a call takes that may be given up. */
export interface CallOptions {
  /** Ends the call, and what it runs; the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

/** What may be sent as bytes; a string is sent as UTF-8. */
export type Bytes = Uint8Array | string | AsyncIterable<Uint8Array | string> | Iterable<Uint8Array | string> | ReadableStream<Uint8Array>

/** The query of a request; undefined is left out, a list is repeated. */
export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>

/** One request. */
export interface Request extends CallOptions {
  /** What is being done, for errors. */
  op: string
  method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH' | 'HEAD'
  /** Below the host; parts are escaped already. */
  path: string
  query?: Query | undefined
  headers?: Readonly<Record<string, string>> | undefined
  /** The body as JSON. */
  json?: unknown
  /** The body as bytes. */
  body?: Bytes | undefined
  /** The request may be made again when the daemon was too busy or the connection was an old one. */
  again?: boolean | undefined
}

/** An answer whose body is still to be read. @internal */
export interface Answer {
  status: number
  headers: http.IncomingHttpHeaders
  body: http.IncomingMessage
}

/** One event of a stream. @internal */
export interface ServerEvent {
  name: string
  id: string
  data: unknown
}

/** Bounds of what is read of an answer. */
const maxAnswer = 64 << 20
const maxProblem = 256 << 10
/** The longest Retry-After that is waited for, in seconds. */
const maxPause = 10
const retries = 2
/** Milliseconds after which a stream of events that says nothing counts as cut off. */
const silence = 60_000
/** Milliseconds within which a connection is made. */
const connectWithin = 10_000

/** The place of a daemon. @internal */
export interface Place {
  secure: boolean
  host: string
  port: number | undefined
  socket: string | undefined
}

/** Reads an address. It leaves out what was given: it may hold a secret. @internal */
export function place(address: string): Place {
  const wrong = (detail: string, hint: string): SandboxError => invalid('reach daemon', 'url', detail, hint)
  const forms = 'write unix:PATH, tcp:HOST:PORT, http://HOST:PORT or https://HOST'
  const colon = address.indexOf(':')
  const kind = address.slice(0, Math.max(colon, 0))
  const rest = address.slice(colon + 1).replace(/^\/\/(?=.)/, '')
  if (colon < 1 || rest === '') throw wrong('it is no address of a daemon', forms)
  switch (kind) {
    case 'unix':
      if (!rest.startsWith('/') || rest.includes('\0')) throw wrong('the path of the socket is not absolute', 'write unix:/PATH')
      return { secure: false, host: 'localhost', port: undefined, socket: rest }
    case 'tcp':
    case 'http':
    case 'https': {
      let url: URL
      try {
        url = new URL(kind === 'tcp' ? `http://${rest}` : address)
      } catch {
        throw wrong('it is no address of a daemon', forms)
      }
      if (kind === 'tcp' && !/:\d+$/.test(rest)) throw wrong('it has no port', 'write tcp:HOST:PORT')
      if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '' || /[^/]/.test(url.pathname)) {
        throw wrong('it is no address of a daemon', 'write http://HOST:PORT or https://HOST, with nothing behind it')
      }
      const port = url.port === '' ? undefined : Number(url.port)
      return { secure: kind === 'https', host: url.hostname.replace(/^\[|\]$/g, ''), port, socket: undefined }
    }
  }
  throw wrong(`nothing is known of ${kind}`, forms)
}

function loopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

/** Escapes one part of a path. @internal */
export function part(op: string, field: string, text: string): string {
  wellFormed(op, field, text)
  return encodeURIComponent(text)
}

/** Refuses text that UTF-8 cannot hold: it would arrive as another text. @internal */
export function wellFormed(op: string, field: string, text: string): void {
  if (!text.isWellFormed()) {
    throw invalid(op, field, 'it holds half of a surrogate pair, which is no text', 'write whole characters')
  }
}

function search(op: string, query: Query | undefined): string {
  if (query === undefined) return ''
  const parts: string[] = []
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue
    for (const one of typeof value === 'object' ? value : [value]) parts.push(`${part(op, name, name)}=${part(op, name, String(one))}`)
  }
  return parts.length === 0 ? '' : `?${parts.join('&')}`
}

/** JSON text; text that UTF-8 cannot hold is refused. */
function write(op: string, value: unknown): Buffer {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw errorOf('SCHEMA.VALIDATION_FAILED', 'the request cannot be written', { op, cause })
  }
  if (text === undefined) throw errorOf('SCHEMA.VALIDATION_FAILED', 'the request cannot be written', { op })
  // JSON.stringify escapes halves of pairs, and nothing else in this way.
  if (text.includes('\\ud') && /(?:^|[^\\])(?:\\\\)*\\ud[89a-f][0-9a-f]{2}/.test(text)) {
    throw errorOf('SCHEMA.VALIDATION_FAILED', 'it holds half of a surrogate pair, which is no text', { op, hint: 'write whole characters' })
  }
  return Buffer.from(text)
}

/** The bytes of a body that is there as a whole. */
function whole(body: Bytes): Uint8Array | undefined {
  if (typeof body === 'string') return Buffer.from(body)
  return body instanceof Uint8Array ? body : undefined
}

async function* pieces(op: string, body: Exclude<Bytes, string | Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const piece of body as AsyncIterable<unknown>) {
    if (typeof piece === 'string') {
      wellFormed(op, 'body', piece)
      yield Buffer.from(piece)
    } else if (piece instanceof Uint8Array) yield piece
    else throw invalid(op, 'body', `a piece of the body is ${piece === null ? 'null' : typeof piece}`, 'give strings or bytes')
  }
}

/** Waits; rejects with the reason of the signal when that comes first. @internal */
export function rest(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error)
      return
    }
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, milliseconds)
    signal?.addEventListener('abort', stop, { once: true })
  })
}

/** Speaks HTTP to one daemon over connections that are used again. @internal */
export class Transport {
  readonly #place: Place
  readonly #agent: http.Agent
  readonly #token: string | undefined
  readonly #sockets = new Set<WebSocket>()
  #closed = false

  constructor(address: Place, token: string | undefined) {
    if (token !== undefined && /[^\x21-\x7e]/.test(token)) {
      throw invalid('reach daemon', 'token', 'the token holds characters that no token has')
    }
    if (token !== undefined && !address.secure && address.socket === undefined && !loopback(address.host)) {
      throw invalid('reach daemon', 'url', 'a token would go over the network for everybody to read', 'use https, or a tunnel to a loopback address')
    }
    this.#place = address
    this.#token = token
    const options: http.AgentOptions = { keepAlive: true, maxFreeSockets: 64, scheduling: 'lifo', noDelay: true }
    this.#agent = address.secure ? new https.Agent(options) : new http.Agent(options)
  }

  /** The address in the form of HTTP. */
  get base(): string {
    const p = this.#place
    const host = p.host.includes(':') ? `[${p.host}]` : p.host
    return `${p.secure ? 'https' : 'http'}://${host}${p.port === undefined ? '' : `:${p.port}`}`
  }

  /** The unix socket, where it is one. */
  get socketPath(): string | undefined {
    return this.#place.socket
  }

  /** Ends all connections, also those in use. */
  close(): void {
    this.#closed = true
    this.#agent.destroy()
    for (const socket of this.#sockets) socket.terminate()
  }

  /** Makes a request and reads the JSON of the answer. */
  async call<T>(request: Request): Promise<T> {
    const answer = await this.send(request)
    const body = await this.#collect(request, answer.body)
    if (body.length === 0) return undefined as T
    try {
      return JSON.parse(body.toString('utf8')) as T
    } catch (cause) {
      throw errorOf('PROVIDER.UNAVAILABLE', 'the answer of the daemon cannot be read', { op: request.op, status: answer.status, cause })
    }
  }

  /** Makes a request and reads the bytes of the answer. */
  async bytes(request: Request): Promise<{ status: number; headers: http.IncomingHttpHeaders; body: Buffer }> {
    const { status, headers, body } = await this.send(request)
    return { status, headers, body: await this.#collect(request, body, Infinity) }
  }

  /** Makes a request and returns the answer of a success; its body is to be read or destroyed. */
  async send(request: Request): Promise<Answer> {
    const { op } = request
    const json = request.json === undefined ? undefined : write(op, request.json)
    for (let tries = 0; ; tries++) {
      const answer = await this.#once(request, json)
      if (answer.status < 300) return answer
      const body = await this.#collect({ op, signal: request.signal }, answer.body, maxProblem)
      let document: unknown
      try {
        document = JSON.parse(body.toString('utf8'))
      } catch {
        document = undefined
      }
      const wait = answer.headers['retry-after']
      const pause = wait !== undefined && /^\d{1,6}$/.test(wait) ? Number(wait) : undefined
      const error = problem(op, answer.status, document, pause)
      const busy = answer.status === 429 || answer.status === 503
      const repeatable = request.again === true && (request.body === undefined || whole(request.body) !== undefined)
      if (!repeatable || !busy || pause === undefined || pause > maxPause || tries >= retries) throw error
      await rest(pause * 1000, request.signal)
    }
  }

  #headers(request: Pick<Request, 'headers'>): Record<string, string> {
    const headers: Record<string, string> = { ...request.headers }
    if (this.#token !== undefined) headers['Authorization'] = `Bearer ${this.#token}`
    return headers
  }

  async #once(request: Request, json: Buffer | undefined): Promise<Answer> {
    for (;;) {
      const failed = { stale: false }
      try {
        return await this.#try(request, json, failed)
      } catch (error) {
        if (!failed.stale || request.again !== true || (request.body !== undefined && whole(request.body) === undefined)) throw error
      }
    }
  }

  #try(request: Request, json: Buffer | undefined, failed: { stale: boolean }): Promise<Answer> {
    const { op, signal } = request
    return new Promise<Answer>((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason as Error)
        return
      }
      if (this.#closed) {
        reject(closed(op))
        return
      }
      const headers = this.#headers(request)
      const body = json ?? (request.body === undefined ? undefined : whole(request.body))
      if (typeof request.body === 'string') wellFormed(op, 'body', request.body)
      if (json !== undefined) headers['Content-Type'] = 'application/json'
      if (body !== undefined) headers['Content-Length'] = String(body.byteLength)
      else if (request.method === 'POST' && request.body === undefined) headers['Content-Length'] = '0'
      const p = this.#place
      const options: http.RequestOptions = {
        method: request.method,
        path: request.path + search(op, request.query),
        headers,
        agent: this.#agent,
        host: p.host,
        port: p.port ?? (p.secure ? 443 : 80),
      }
      if (p.socket !== undefined) options.socketPath = p.socket
      const call = p.secure ? https.request(options) : http.request(options)
      let answered: http.IncomingMessage | undefined
      let sending: unknown
      const stop = (): void => {
        call.destroy()
        answered?.destroy(signal?.reason as Error)
      }
      const settle = (): void => signal?.removeEventListener('abort', stop)
      signal?.addEventListener('abort', stop, { once: true })
      call.on('socket', (socket) => watchConnect(socket, call))
      call.on('error', (cause: NodeJS.ErrnoException) => {
        settle()
        if (answered !== undefined) return
        if (signal?.aborted === true) {
          reject(signal.reason as Error)
          return
        }
        if (sending !== undefined) {
          reject(sending as Error)
          return
        }
        failed.stale = call.reusedSocket && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE')
        reject(this.#closed ? closed(op) : broken(op, cause))
      })
      call.on('response', (message) => {
        answered = message
        message.once('close', settle)
        resolve({ status: message.statusCode ?? 0, headers: message.headers, body: message })
      })
      if (body !== undefined) call.end(body)
      else if (request.body === undefined) call.end()
      else {
        // A source that fails ends the request: what has arrived of it is no file.
        pipeline(Readable.from(pieces(op, request.body as Exclude<Bytes, string | Uint8Array>), { objectMode: false }), call).catch((cause: unknown) => {
          if (answered !== undefined || signal?.aborted === true) return
          if (isConnection(cause)) return // the call reports it
          sending = cause instanceof SandboxError ? cause : errorOf('TOOL.EXECUTION_FAILED', 'what is to be sent could not be read', { op, field: 'body', cause })
          call.destroy()
          reject(sending as Error)
        })
      }
    })
  }

  /** Reads a body to its end. */
  #collect(request: Pick<Request, 'op' | 'signal'>, body: http.IncomingMessage, most = maxAnswer): Promise<Buffer> {
    const { op, signal } = request
    return new Promise((resolve, reject) => {
      const parts: Buffer[] = []
      let size = 0
      body.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > most) {
          body.destroy()
          reject(errorOf('PROVIDER.UNAVAILABLE', 'the daemon answers without end', { op }))
        } else parts.push(chunk)
      })
      body.on('end', () => resolve(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts, size)))
      const failed = (cause?: Error): void => reject(this.#failure(op, signal, cause))
      body.on('error', failed)
      body.on('close', () => failed()) // after an end it has no effect
    })
  }

  #failure(op: string, signal: AbortSignal | undefined, cause: unknown): Error {
    if (signal?.aborted === true) return signal.reason as Error
    if (this.#closed) return closed(op)
    if (cause instanceof SandboxError) return cause
    return errorOf('PROVIDER.UNAVAILABLE', 'the connection ended before the answer had', { op, retryable: true, ...(cause === undefined ? {} : { cause }) })
  }

  /** Reads a body piece by piece; leaving the loop closes the connection. */
  async *read(request: Pick<Request, 'op' | 'signal'>, body: http.IncomingMessage, mute = Infinity): AsyncGenerator<Buffer, void, undefined> {
    const source = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    try {
      for (;;) {
        let timer: NodeJS.Timeout | undefined
        if (mute !== Infinity) timer = setTimeout(() => body.destroy(new Error('it says nothing, not even that it lives')), mute)
        let next: IteratorResult<Buffer>
        try {
          next = await source.next()
        } finally {
          clearTimeout(timer)
        }
        if (next.done === true) {
          if (!body.complete) throw new Error('the connection ended')
          return
        }
        yield next.value
      }
    } catch (cause) {
      throw this.#failure(request.op, request.signal, cause)
    } finally {
      body.destroy()
    }
  }

  /**
   * Makes a request that is answered with events, and returns them one by one. A
   * stream that ends while more is asked for was cut off, which is an error. An
   * event "error" is thrown.
   */
  async *events(request: Request): AsyncGenerator<ServerEvent, never, undefined> {
    const { op, signal } = request
    const answer = await this.send({ ...request, headers: { ...request.headers, Accept: 'text/event-stream' } })
    if (!/^text\/event-stream\s*(;|$)/i.test(answer.headers['content-type'] ?? '')) {
      answer.body.destroy()
      throw errorOf('PROVIDER.UNAVAILABLE', 'the daemon answers with something else than events', { op, status: answer.status })
    }
    const decoder = new StringDecoder('utf8')
    let left = ''
    let event = blank()
    let size = 0
    try {
      for await (const chunk of this.read({ op, signal }, answer.body, silence)) {
        const text = left + decoder.write(chunk)
        let at = 0
        for (;;) {
          const end = text.indexOf('\n', at)
          if (end < 0) break
          const line = text.slice(at, text[end - 1] === '\r' && end > at ? end - 1 : end)
          at = end + 1
          if (line === '') {
            if (event.data !== undefined) {
              const data = parse(op, event.data)
              if (event.name === 'error') throw problem(op, 500, data)
              yield { name: event.name, id: event.id, data }
            }
            event = blank()
            size = 0
            continue
          }
          size += line.length
          if (size > maxAnswer) throw errorOf('PROVIDER.UNAVAILABLE', 'an event has no end', { op })
          const colon = line.indexOf(':')
          const field = colon < 0 ? line : line.slice(0, colon)
          const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
          if (field === 'event') event.name = value
          else if (field === 'id') event.id = value
          else if (field === 'data') event.data = event.data === undefined ? value : `${event.data}\n${value}`
        }
        left = text.slice(at)
        if (left.length > maxAnswer) throw errorOf('PROVIDER.UNAVAILABLE', 'an event has no end', { op })
      }
    } catch (cause) {
      throw signal?.aborted !== true && !this.#closed && cause instanceof SandboxError && cause.cause !== undefined && cause.code === 'PROVIDER.UNAVAILABLE'
        ? cut(op, cause.cause)
        : cause
    }
    throw cut(op)
  }

  /** Opens a WebSocket. */
  socket(request: Pick<Request, 'op' | 'path' | 'query' | 'headers' | 'signal'>): Promise<{ socket: WebSocket; headers: http.IncomingHttpHeaders }> {
    const { op, signal } = request
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason as Error)
        return
      }
      if (this.#closed) {
        reject(closed(op))
        return
      }
      const p = this.#place
      const path = request.path + search(op, request.query)
      const base = this.base.replace(/^http/, 'ws')
      const options = {
        headers: this.#headers(request),
        perMessageDeflate: false,
        handshakeTimeout: 120_000,
        maxPayload: 8 << 20,
        followRedirects: false,
      }
      const at = p.socket
      const socket = new WebSocket(base + path, at === undefined ? options : { ...options, createConnection: () => connect(at) })
      this.#sockets.add(socket)
      let headers: http.IncomingHttpHeaders = {}
      const stop = (): void => {
        socket.terminate()
        reject(signal?.reason as Error)
      }
      signal?.addEventListener('abort', stop, { once: true })
      const settle = (): void => signal?.removeEventListener('abort', stop)
      socket.once('close', () => {
        settle()
        this.#sockets.delete(socket)
      })
      socket.once('upgrade', (message) => {
        headers = message.headers
      })
      socket.once('open', () => {
        settle()
        resolve({ socket, headers })
      })
      socket.once('unexpected-response', (call, message) => {
        this.#collect({ op, signal }, message, maxProblem)
          .then(
            (body) => {
              let document: unknown
              try {
                document = JSON.parse(body.toString('utf8'))
              } catch {
                document = undefined
              }
              reject(problem(op, message.statusCode, document))
            },
            (cause: unknown) => reject(cause as Error),
          )
          .finally(() => {
            call.destroy()
            socket.terminate()
          })
      })
      socket.on('error', (cause: NodeJS.ErrnoException) => {
        settle()
        reject(signal?.aborted === true ? (signal.reason as Error) : this.#closed ? closed(op) : broken(op, cause))
      })
    })
  }
}

/** The events of one stream are read into this. */
function blank(): { name: string; id: string; data: string | undefined } {
  return { name: '', id: '', data: undefined }
}

function parse(op: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw errorOf('PROVIDER.UNAVAILABLE', 'an event of the daemon cannot be read', { op, cause: new Error((cause as Error).message) })
  }
}

function cut(op: string, cause?: unknown): SandboxError {
  return errorOf('PROVIDER.UNAVAILABLE', 'the stream was cut off, and it is not known what came after it', {
    op,
    ...(cause === undefined ? {} : { cause }),
  })
}

function watchConnect(socket: Socket, call: http.ClientRequest): void {
  if (!socket.connecting) return
  const timer = setTimeout(() => call.destroy(new Error('no connection was made in time')), connectWithin)
  const done = (): void => clearTimeout(timer)
  socket.once('connect', done)
  socket.once('close', done)
}

function isConnection(cause: unknown): boolean {
  const code = (cause as NodeJS.ErrnoException | undefined)?.code
  return code === 'ECONNRESET' || code === 'EPIPE' || code === 'ECONNREFUSED' || code === 'ENOENT' || code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ERR_STREAM_DESTROYED'
}

/** The error of a call without an answer. */
function broken(op: string, cause: Error): SandboxError {
  return errorOf('PROVIDER.UNAVAILABLE', `the daemon does not answer: ${cause.message}`, {
    op,
    retryable: true,
    hint: 'is it running (`sandbox serve`), and is the url right?',
    cause,
  })
}

function closed(op: string): SandboxError {
  return errorOf('PROVIDER.UNAVAILABLE', 'the client is closed', { op, hint: 'make another client' })
}

/**
 * Makes an iterator whose return ends it at once, also while its next piece is
 * awaited: an async generator alone would wait for that piece first.
 * @internal
 */
export function abandonable<T>(signal: AbortSignal | undefined, make: (signal: AbortSignal) => AsyncGenerator<T, void, undefined>): AsyncGenerator<T, void, undefined> {
  const left = new AbortController()
  const pass = (): void => left.abort(signal?.reason)
  const settle = (): void => signal?.removeEventListener('abort', pass)
  if (signal?.aborted === true) pass()
  else signal?.addEventListener('abort', pass, { once: true })
  const inner = make(left.signal)
  const ended = Symbol('ended')
  return {
    async next() {
      try {
        const next = await inner.next()
        if (next.done === true) settle()
        return next
      } catch (error) {
        settle()
        if (error === ended) return { done: true, value: undefined }
        throw error
      }
    },
    async return() {
      settle()
      left.abort(ended)
      try {
        return await inner.return()
      } catch (error) {
        if (error === ended) return { done: true, value: undefined }
        throw error
      }
    },
    async throw(error) {
      settle()
      left.abort(ended)
      return inner.throw(error)
    },
    [Symbol.asyncIterator]() {
      return this
    },
    async [Symbol.asyncDispose]() {
      await this.return()
    },
  }
}
