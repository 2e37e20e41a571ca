import type { WebSocket } from 'ws'
import { one, seconds, type Api, type Command, type Schemas } from './api.js'
import { errorOf, invalid, problem } from './errors.js'
import { Result } from './result.js'
import { wellFormed, type CallOptions, type Query } from './transport.js'

/** Choices of a terminal. */
export interface TerminalOptions extends CallOptions {
  /** 24 without. */
  rows?: number | undefined
  /** 80 without. */
  cols?: number | undefined
  /** What runs on it; an interactive shell without. */
  command?: Command | undefined
  cwd?: string | undefined
  env?: Readonly<Record<string, string>> | undefined
  /** The seconds that it may take; the settings say without. */
  timeout?: number | undefined
  /** It stays when the connection ends, and is found again by its id. It is a shell then. */
  keep?: boolean | undefined
  /** The id of a terminal that has stayed; its last output comes first. */
  id?: string | undefined
}

/** Bytes under way on one channel, and of one frame. */
const windowSize = 128 << 10
const maxData = 32 << 10

interface Frame {
  type: string
  id?: number
  channel?: number
  bytes?: number
  error?: unknown
  exit?: { code?: number; signal?: string }
  outcome?: unknown
}

/** A terminal inside. Its output is iterated once; the signal of open ends the connection. */
export class Terminal implements AsyncIterable<Uint8Array> {
  /** The id of a terminal that stays; undefined of another. */
  readonly id: string | undefined
  readonly #socket: WebSocket
  readonly #queue: Uint8Array[] = []
  readonly #answers = new Map<number, { resolve: () => void; reject: (error: unknown) => void }>()
  readonly #release: () => void
  #wake: (() => void) | undefined
  #room: (() => void) | undefined
  #credit = windowSize
  #writing: Promise<void> = Promise.resolve()
  #last = 0
  #over = false
  #error: unknown
  readonly #exit: Promise<Result>
  #settle!: { resolve: (result: Result) => void; reject: (error: unknown) => void }
  readonly #begun: Promise<void>
  #begin!: () => void

  private constructor(socket: WebSocket, id: string | undefined, signal: AbortSignal | undefined) {
    this.#socket = socket
    this.id = id
    this.#exit = new Promise((resolve, reject) => (this.#settle = { resolve, reject }))
    this.#exit.catch(() => undefined)
    this.#begun = new Promise((resolve) => (this.#begin = resolve))
    const stop = (): void => {
      this.#end(signal?.reason)
      socket.terminate()
    }
    signal?.addEventListener('abort', stop, { once: true })
    this.#release = () => signal?.removeEventListener('abort', stop)
    socket.on('message', (data: Buffer, binary: boolean) => {
      if (binary) this.#output(data)
      else this.#control(data)
    })
    socket.on('close', () => {
      this.#end(errorOf('PROVIDER.UNAVAILABLE', 'the connection ended, and it is not known how the command ended', { op: 'terminal' }))
    })
    if (signal?.aborted === true) stop()
  }

  /** @internal */
  static async open(api: Api, name: string, o: TerminalOptions): Promise<Terminal> {
    const op = 'open terminal'
    const size = { rows: o.rows ?? 24, cols: o.cols ?? 80 }
    for (const field of ['rows', 'cols'] as const) {
      if (!Number.isInteger(size[field]) || size[field] < 1 || size[field] > 1000) throw invalid(op, field, 'it is no number from 1 to 1000')
    }
    const stays = o.keep === true || o.id !== undefined
    if (stays && (o.command !== undefined || o.cwd !== undefined || o.env !== undefined || o.timeout !== undefined)) {
      throw invalid(op, 'keep', 'a terminal that stays is a shell as the settings have it', 'leave out command, cwd, env and timeout')
    }
    const query: Query = { keep: o.keep === true && o.id === undefined ? true : undefined, id: o.id, rows: stays && o.id === undefined ? size.rows : undefined, cols: stays && o.id === undefined ? size.cols : undefined }
    const first: Record<string, unknown> = { tty: size, window: windowSize }
    if (typeof o.command === 'string') {
      wellFormed(op, 'command', o.command)
      first['line'] = o.command
    } else if (o.command !== undefined) first['args'] = o.command
    if (o.cwd !== undefined) first['dir'] = o.cwd
    if (o.env !== undefined) first['env'] = o.env
    const timeout = seconds(op, 'timeout', o.timeout)
    if (timeout !== undefined) first['timeoutSeconds'] = timeout
    const { socket, headers } = await api.socket({ op, path: one(name, '/pty'), query, signal: o.signal })
    const kept = headers['sandbox-terminal']
    const terminal = new Terminal(socket, o.id ?? (typeof kept === 'string' ? kept : undefined), o.signal)
    socket.send(JSON.stringify(first))
    // What cannot begin is an error of open, not of the first reading.
    await Promise.race([terminal.#begun, terminal.#exit])
    return terminal
  }

  #output(frame: Buffer): void {
    if (frame.length < 2) return
    this.#queue.push(new Uint8Array(frame.subarray(1)))
    this.#wake?.()
  }

  #control(data: Buffer): void {
    let frame: Frame
    try {
      frame = JSON.parse(data.toString('utf8')) as Frame
    } catch {
      this.#end(errorOf('PROVIDER.UNAVAILABLE', 'the daemon does not speak as it should', { op: 'terminal' }))
      this.#socket.terminate()
      return
    }
    switch (frame.type) {
      case 'started':
        this.#begin()
        break
      case 'credit':
        if ((frame.channel ?? 0) === 0) {
          this.#credit += frame.bytes ?? 0
          this.#room?.()
        }
        break
      case 'done': {
        const answer = this.#answers.get(frame.id ?? 0)
        this.#answers.delete(frame.id ?? 0)
        if (frame.error === undefined) answer?.resolve()
        else answer?.reject(problem('terminal', undefined, frame.error))
        break
      }
      case 'exit':
        this.#end(undefined, exitOf(frame))
        break
      case 'error':
        this.#end(problem('terminal', undefined, frame.error))
        break
    }
  }

  #end(error: unknown, result?: Result): void {
    if (this.#over) return
    this.#over = true
    this.#error = error
    this.#release()
    if (result !== undefined) this.#settle.resolve(result)
    else this.#settle.reject(error)
    // The end may come before the answer to the request that has caused it, such as kill.
    for (const answer of this.#answers.values()) {
      if (result !== undefined) answer.resolve()
      else answer.reject(error)
    }
    this.#answers.clear()
    this.#begin()
    this.#wake?.()
    this.#room?.()
    // An exit is the last frame: the daemon closes after it, and at the latest we do.
    if (result !== undefined) this.#socket.close()
  }

  /** Its output, as it comes. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const piece = this.#queue.shift()
      if (piece !== undefined) {
        if (!this.#over) this.#socket.send(JSON.stringify({ type: 'credit', channel: 1, bytes: piece.byteLength }))
        yield piece
      } else if (this.#over) {
        if (this.#error !== undefined) throw this.#error
        return
      } else {
        await new Promise<void>((resolve) => (this.#wake = resolve))
        this.#wake = undefined
      }
    }
  }

  /** Types; returns when all is on its way. */
  write(data: Uint8Array | string): Promise<void> {
    if (typeof data === 'string') wellFormed('terminal', 'data', data)
    const bytes = typeof data === 'string' ? Buffer.from(data) : data
    const turn = this.#writing.then(() => this.#send(bytes))
    this.#writing = turn.catch(() => undefined)
    return turn
  }

  async #send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.byteLength; ) {
      while (this.#credit === 0 && !this.#over) {
        await new Promise<void>((resolve) => (this.#room = resolve))
        this.#room = undefined
      }
      this.#open()
      const piece = bytes.subarray(at, at + Math.min(maxData, this.#credit))
      const frame = Buffer.allocUnsafe(piece.byteLength + 1)
      frame[0] = 0
      frame.set(piece, 1)
      this.#credit -= piece.byteLength
      at += piece.byteLength
      await new Promise<void>((resolve) => this.#socket.send(frame, () => resolve())) // an error closes the socket
    }
  }

  #open(): void {
    if (this.#over) throw this.#error ?? errorOf('SANDBOX.NOT_FOUND', 'the command on the terminal has ended', { op: 'terminal' })
  }

  #ask(message: Record<string, unknown>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#open()
      const id = ++this.#last
      this.#answers.set(id, { resolve, reject })
      this.#socket.send(JSON.stringify({ ...message, id }))
    })
  }

  async resize(rows: number, cols: number): Promise<void> {
    return this.#ask({ type: 'resize', rows, cols })
  }

  /** Sends the signal of that name, such as "INT". */
  async signal(name: string): Promise<void> {
    return this.#ask({ type: 'signal', signal: name })
  }

  /** Ends the command with all its processes. */
  async kill(): Promise<void> {
    return this.#ask({ type: 'kill' })
  }

  /** Waits for the end of the command. Its output has to be iterated meanwhile, or is dropped here. */
  async wait(): Promise<Result> {
    const drain = (async (): Promise<void> => {
      for await (const _ of this);
    })().catch(() => undefined)
    const result = await this.#exit
    await drain
    return result
  }

  /** Ends the connection, and with it a terminal that does not stay. */
  async close(): Promise<void> {
    this.#end(errorOf('PROVIDER.UNAVAILABLE', 'the terminal is closed', { op: 'terminal' }))
    if (this.#socket.readyState === this.#socket.CLOSED) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => this.#socket.terminate(), 1000)
      this.#socket.once('close', () => {
        clearTimeout(timer)
        resolve()
      })
      this.#socket.close()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** The end of a terminal: what the daemon says of it, or else the little that the frame has. */
function exitOf(frame: Frame): Result {
  const outcome = (frame.outcome ?? {}) as Partial<Schemas['Exit']>
  return new Result(
    {
      blocked: false,
      durationMs: 0,
      maxRssBytes: 0,
      restarted: false,
      sandbox: '',
      stderrBytes: 0,
      stdoutBytes: 0,
      systemMs: 0,
      timedOut: false,
      truncated: false,
      userMs: 0,
      violations: [],
      exitCode: frame.exit?.code ?? -1,
      ...(frame.exit?.signal === undefined ? {} : { signal: frame.exit.signal }),
      ...outcome,
    },
    '',
    '',
  )
}
