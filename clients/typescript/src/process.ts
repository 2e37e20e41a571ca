import { one, maxInput, type Api, type CommandOptions, type Schemas } from './api.js'
import { errorOf, invalid, SandboxError } from './errors.js'
import { checked, Collected, encode, Result, unbase } from './result.js'
import { abandonable, part, rest, wellFormed, type Bytes, type CallOptions, type Request } from './transport.js'

/** Output, as it comes. */
export interface OutputEvent {
  type: 'stdout' | 'stderr'
  data: Uint8Array
  /** The data as text; a character that is cut is in the next piece as a whole. */
  text: string
}

/** The end of a command; the last event. */
export interface ExitEvent {
  type: 'exit'
  exitCode: number
  /** Without the output. */
  result: Result
}

/** So many bytes before what comes next are lost. */
export interface DroppedEvent {
  type: 'dropped'
  bytes: number
}

/** The command begins anew with a permission: what came before is void. */
export interface AgainEvent {
  type: 'again'
}

/** What a command comes to, in the order in which the daemon sends it. */
export type StreamEvent = OutputEvent | ExitEvent | DroppedEvent | AgainEvent

/** What there is to know of a process. */
export type ProcessInfo = Schemas['Process']

/** Choices of a command whose output is passed on. */
export interface StreamOptions extends CommandOptions, CallOptions {
  /** Its input, of at most 1 MiB; empty without. */
  stdin?: Bytes | undefined
}

/** Choices of a command in the background. */
export interface StartOptions extends CommandOptions, CallOptions {
  /** Its first input, of at most 1 MiB; true leaves the input open for write, which is the default. */
  stdin?: Bytes | boolean | undefined
  /** Runs it on a terminal; all output is stdout then. */
  tty?: boolean | { rows: number; cols: number } | undefined
  /** A name by which it is found, with more than digits. */
  tag?: string | undefined
}

/** Where to begin in the output of a process. */
export interface AttachOptions extends CallOptions {
  /** The place in the output: 0, without, is the beginning of what is kept, -1 is what comes from now on. */
  from?: number | undefined
}

/** Attempts to go on with a stream that was cut off, without an event in between. */
const attempts = 5

/** The data of an event with output. @internal */
export function outputOf(data: unknown): Uint8Array {
  const o = data as Schemas['Output']
  return o.base64 === undefined ? encode(o.text ?? '') : unbase(o.base64)
}

/** Makes events of output whose text has whole characters. @internal */
export function outputs(): { (type: 'stdout' | 'stderr', data: Uint8Array): OutputEvent; reset(): void } {
  const make = (): InstanceType<typeof TextDecoder> => new TextDecoder('utf-8', { ignoreBOM: true })
  const fresh = (): { stdout: ReturnType<typeof make>; stderr: ReturnType<typeof make> } => ({ stdout: make(), stderr: make() })
  let decoders = fresh()
  return Object.assign(
    (type: 'stdout' | 'stderr', data: Uint8Array): OutputEvent => ({ type, data, text: decoders[type].decode(data, { stream: true }) }),
    {
      reset: (): void => {
        decoders = fresh()
      },
    },
  )
}

/**
 * Makes a request that is answered with the events of a process, and follows these
 * over as many connections as it takes: nothing comes twice, and what is lost is reported.
 * @internal
 */
export async function* follow(
  api: Api,
  name: string,
  first: Request,
  signal: AbortSignal | undefined,
  begun?: (process: ProcessInfo) => void,
): AsyncGenerator<StreamEvent, void, undefined> {
  let request: Request = { ...first, signal }
  let last = ''
  let tries = 0
  const output = outputs()
  for (;;) {
    try {
      for await (const event of api.events(request)) {
        if (event.id !== '' && event.id !== last) {
          last = event.id
          tries = 0
        }
        switch (event.name) {
          case 'process':
            begun?.(event.data as ProcessInfo)
            break
          case 'stdout':
          case 'stderr':
            yield output(event.name, outputOf(event.data))
            break
          case 'dropped':
            output.reset()
            yield { type: 'dropped', bytes: (event.data as Schemas['Dropped']).bytes }
            break
          case 'again':
            output.reset()
            yield { type: 'again' }
            break
          case 'exit': {
            const exit = event.data as Schemas['Exit']
            yield { type: 'exit', exitCode: exit.exitCode, result: new Result(exit, '', '') }
            return
          }
        }
      }
    } catch (error) {
      const lost = error instanceof SandboxError && error.code === 'PROVIDER.UNAVAILABLE'
      if (!lost || last === '' || tries >= attempts || signal?.aborted === true) throw error
      tries++
      const id = last.slice(0, last.lastIndexOf('.'))
      request = {
        op: first.op,
        method: 'GET',
        path: one(name, `/processes/${part(first.op, 'id', id)}/stream`),
        headers: { 'Last-Event-ID': last },
        signal,
      }
      await rest(tries * 100, signal)
    }
  }
}

/** Runs a command and passes on what it comes to; leaving the loop ends the command. @internal */
export function stream(
  api: Api,
  name: string,
  request: Schemas['ExecStream'],
  signal: AbortSignal | undefined,
  before: () => Promise<void>,
): AsyncGenerator<StreamEvent, void, undefined> {
  return abandonable(signal, async function* (given) {
    let id: string | undefined
    let over = false
    try {
      await before()
      const call: Request = { op: 'exec', method: 'POST', path: one(name, '/exec/stream'), json: request }
      for await (const event of follow(api, name, call, given, (process) => (id = process.id))) {
        if (event.type === 'exit') over = true
        yield event
      }
    } catch (error) {
      over ||= error instanceof SandboxError && error.code !== 'PROVIDER.UNAVAILABLE'
      throw error
    } finally {
      if (!over && id !== undefined) await end(api, name, id).catch(() => undefined)
    }
  })
}

/** Ends a process that has lost its reader; it ends by itself 30 seconds later. */
async function end(api: Api, name: string, id: string): Promise<void> {
  await api.call({ op: 'kill process', method: 'DELETE', path: one(name, `/processes/${part('kill process', 'id', id)}`), signal: AbortSignal.timeout(5000) })
}

/** A command in the background: it goes on when the program has ended. */
export class Process implements AsyncIterable<StreamEvent> {
  readonly #api: Api
  readonly #name: string
  #info: ProcessInfo

  /** @internal */
  constructor(api: Api, name: string, info: ProcessInfo) {
    this.#api = api
    this.#name = name
    this.#info = info
  }

  /** What names the process for good. */
  get id(): string {
    return this.#info.id
  }

  /** Its number inside; undefined where that is not known. */
  get pid(): number | undefined {
    return this.#info.pid
  }

  get tag(): string | undefined {
    return this.#info.tag
  }

  get command(): string {
    return this.#info.command
  }

  #path(op: string, below = ''): string {
    return one(this.#name, `/processes/${part(op, 'id', this.#info.id)}${below}`)
  }

  /** Tells what there is to know of it now. */
  async info(options: CallOptions = {}): Promise<ProcessInfo> {
    const op = 'show process'
    return (this.#info = await this.#api.call<ProcessInfo>({ op, method: 'GET', path: this.#path(op), again: true, signal: options.signal }))
  }

  /**
   * Follows its output. What is kept from the place on comes first. Leaving the loop
   * leaves the process alone.
   */
  stream(options: AttachOptions = {}): AsyncGenerator<StreamEvent, void, undefined> {
    const op = 'attach'
    const from = options.from ?? 0
    if (!Number.isInteger(from) || from < -1) throw invalid(op, 'from', 'the place is no whole number from -1 on', 'write 0 for the beginning')
    return abandonable(options.signal, (signal) =>
      follow(this.#api, this.#name, { op, method: 'GET', path: this.#path(op, '/stream'), query: { from }, again: true }, signal),
    )
  }

  [Symbol.asyncIterator](): AsyncGenerator<StreamEvent, void, undefined> {
    return this.stream()
  }

  /**
   * Waits for its end, and returns how it ended with the last MiB of each output. An
   * error means that it is not known how it ended.
   */
  async wait(options: CallOptions & { check?: boolean | undefined } = {}): Promise<Result> {
    return collect(this.stream({ signal: options.signal }), 1 << 20, { check: options.check })
  }

  /** Writes all of the data to its input. */
  async write(data: Bytes, options: CallOptions = {}): Promise<void> {
    const op = 'write'
    const send = async (bytes: Uint8Array): Promise<void> => {
      for (let at = 0; at < bytes.byteLength; at += maxInput) {
        const piece = bytes.subarray(at, at + maxInput)
        const dataBase64 = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength).toString('base64')
        await this.#api.call({ op, method: 'POST', path: this.#path(op, '/stdin'), json: { dataBase64 }, signal: options.signal })
      }
    }
    if (data instanceof Uint8Array) return send(data)
    if (typeof data === 'string') {
      wellFormed(op, 'data', data)
      return send(encode(data))
    }
    for await (const piece of data as AsyncIterable<Uint8Array | string>) {
      if (typeof piece === 'string') wellFormed(op, 'data', piece)
      await send(typeof piece === 'string' ? encode(piece) : piece)
    }
  }

  /** Closes its input. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    const op = 'close input'
    await this.#api.call({ op, method: 'POST', path: this.#path(op, '/stdin'), json: { eof: true }, signal: options.signal })
  }

  /** Sends the signal of that name, such as "TERM" or "INT", to its process group. */
  async signal(name: string, options: CallOptions = {}): Promise<void> {
    const op = 'signal'
    await this.#api.call({ op, method: 'POST', path: this.#path(op, '/signal'), json: { signal: name }, signal: options.signal })
  }

  /** Changes the size of its terminal. */
  async resize(rows: number, cols: number, options: CallOptions = {}): Promise<void> {
    const op = 'resize'
    await this.#api.call({ op, method: 'POST', path: this.#path(op, '/resize'), json: { rows, cols }, signal: options.signal })
  }

  /** Ends it with all that it has started, and returns how it has ended. */
  async kill(options: CallOptions = {}): Promise<ProcessInfo> {
    const op = 'kill process'
    return (this.#info = await this.#api.call<ProcessInfo>({ op, method: 'DELETE', path: this.#path(op), signal: options.signal }))
  }
}

/** What is called with output. */
export interface OutputHandlers {
  /** Is called with each piece of output as it comes; the command waits while a promise of it does. */
  onStdout?: ((text: string, data: Uint8Array) => void | Promise<void>) | undefined
  onStderr?: ((text: string, data: Uint8Array) => void | Promise<void>) | undefined
  /** The command begins anew with a permission: what came before is void. */
  onAgain?: (() => void | Promise<void>) | undefined
}

/** Reads events to the end, and returns the end with the output. @internal */
export async function collect(
  events: AsyncIterable<StreamEvent>,
  most: number,
  o: OutputHandlers & { op?: string; check?: boolean | undefined } = {},
): Promise<Result> {
  const kept = { stdout: new Collected(most), stderr: new Collected(most) }
  let dropped = false
  for await (const event of events) {
    switch (event.type) {
      case 'stdout':
      case 'stderr':
        kept[event.type].push(event.data)
        await (event.type === 'stdout' ? o.onStdout : o.onStderr)?.(event.text, event.data)
        break
      case 'dropped':
        dropped = true
        break
      case 'again':
        kept.stdout.clear()
        kept.stderr.clear()
        dropped = false
        await o.onAgain?.()
        break
      case 'exit': {
        const r = event.result
        const exit: Schemas['Exit'] = { ...r, stdoutBytes: r.stdoutSize, stderrBytes: r.stderrSize, violations: [...r.violations] } as unknown as Schemas['Exit']
        const truncated = dropped || kept.stdout.lost || kept.stderr.lost
        return checked(o.op ?? 'wait', new Result(exit, kept.stdout.bytes(), kept.stderr.bytes(), truncated), o.check)
      }
    }
  }
  throw errorOf('PROVIDER.UNAVAILABLE', 'the stream was cut off, and it is not known what came after it', { op: o.op ?? 'wait' })
}

/** The request of a start. @internal */
export function terminalOf(tty: StartOptions['tty']): Schemas['TerminalSize'] | undefined {
  if (tty === undefined || tty === false) return undefined
  return tty === true ? { rows: 24, cols: 80 } : { rows: tty.rows, cols: tty.cols }
}


