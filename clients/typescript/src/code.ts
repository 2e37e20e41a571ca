import { one, seconds, type Api, type Schemas } from './api.js'
import { errorOf } from './errors.js'
import { abandonable, part, type CallOptions, type Request } from './transport.js'

export type CodeContext = Schemas['CodeContext']
export type CodeEvent = Schemas['CodeEvent']
/** What code has come to. */
export type CodeRun = Schemas['CodeRun']

/** One thing that code comes to, that it begins anew, or how the run ended. */
export type CodeStreamEvent = CodeEvent | { type: 'again' } | ({ type: 'done' } & Schemas['CodeDone'])

/** How code is run. */
export interface CodeOptions extends CallOptions {
  /** "python" without. */
  language?: 'python' | 'javascript' | 'bash' | undefined
  /** The id of a context; the default one of the language without. */
  context?: string | CodeContext | undefined
  /** For this run alone. */
  env?: Readonly<Record<string, string>> | undefined
  /** Where the kernel of a default context starts, if this is its first run. */
  cwd?: string | undefined
  /** The seconds after which the code is interrupted; the settings say without. */
  timeout?: number | undefined
  tool?: string | undefined
  ask?: boolean | undefined
  /** Is called with each event as it comes. */
  onEvent?: ((event: CodeStreamEvent) => void | Promise<void>) | undefined
}

/** Runs code. @internal */
export class Code {
  readonly #api: Api
  readonly #name: string

  constructor(api: Api, name: string) {
    this.#api = api
    this.#name = name
  }

  #request(code: string, o: CodeOptions): Request {
    const op = 'run code'
    const json: Schemas['RunCode'] = { code }
    if (o.language !== undefined) json.language = o.language
    if (o.context !== undefined) json.context = typeof o.context === 'string' ? o.context : o.context.id
    if (o.env !== undefined) json.env = o.env
    if (o.cwd !== undefined) json.dir = o.cwd
    const timeout = seconds(op, 'timeout', o.timeout)
    if (timeout !== undefined) json.timeoutSeconds = timeout
    if (o.tool !== undefined) json.tool = o.tool
    if (o.ask !== undefined) json.ask = o.ask
    return { op, method: 'POST', path: one(this.#name, '/code'), json, signal: o.signal }
  }

  stream(code: string, o: CodeOptions): AsyncGenerator<CodeStreamEvent, void, undefined> {
    const request = this.#request(code, o)
    const api = this.#api
    return abandonable(o.signal, async function* (signal): AsyncGenerator<CodeStreamEvent, void, undefined> {
      for await (const event of api.events({ ...request, signal })) {
        if (event.name === 'code') yield event.data as CodeEvent
        else if (event.name === 'again') yield { type: 'again' }
        else if (event.name === 'done') {
          yield { type: 'done', ...(event.data as Schemas['CodeDone']) }
          return
        }
      }
    })
  }

  async run(code: string, o: CodeOptions): Promise<CodeRun> {
    if (o.onEvent === undefined) return this.#api.call<CodeRun>(this.#request(code, o))
    let run = nothing()
    for await (const event of this.stream(code, o)) {
      switch (event.type) {
        case 'again':
          run = nothing()
          break
        case 'stdout':
        case 'stderr':
          run[event.type] += event.text ?? ''
          break
        case 'result':
          if (event.result !== undefined) run.results.push(event.result)
          break
        case 'error':
          if (event.error !== undefined) run.error = event.error
          break
        case 'count':
          run.executionCount = event.executionCount ?? 0
          break
        case 'timeout':
          run.timedOut = true
          break
        case 'truncated':
          run.dropped += event.dropped ?? 0
          break
        case 'done':
          run = { ...run, durationMs: event.durationMs, sandbox: event.sandbox, timedOut: event.timedOut }
          await o.onEvent(event)
          return run
      }
      await o.onEvent(event)
    }
    throw errorOf('PROVIDER.UNAVAILABLE', 'the stream was cut off, and it is not known what came after it', { op: 'run code' })
  }
}

function nothing(): CodeRun {
  return { dropped: 0, durationMs: 0, executionCount: 0, results: [], sandbox: '', stderr: '', stdout: '', timedOut: false }
}

/** The kernels with their variables. */
export class Contexts {
  readonly #api: Api
  readonly #name: string

  /** @internal */
  constructor(api: Api, name: string) {
    this.#api = api
    this.#name = name
  }

  /** Starts a kernel with variables of its own. */
  async create(options: CallOptions & { language?: 'python' | 'javascript' | 'bash' | undefined; cwd?: string | undefined } = {}): Promise<CodeContext> {
    const json: Schemas['CreateCodeContext'] = {}
    if (options.language !== undefined) json.language = options.language
    if (options.cwd !== undefined) json.dir = options.cwd
    return this.#api.call({ op: 'create code context', method: 'POST', path: one(this.#name, '/code/contexts'), json, signal: options.signal })
  }

  async list(options: CallOptions = {}): Promise<readonly CodeContext[]> {
    const list = await this.#api.call<Schemas['CodeContextList']>({
      op: 'list code contexts',
      method: 'GET',
      path: one(this.#name, '/code/contexts'),
      again: true,
      signal: options.signal,
    })
    return list.items
  }

  /** Starts the kernel of a context anew. Its variables are lost. */
  async restart(id: string, options: CallOptions = {}): Promise<CodeContext> {
    const op = 'restart code context'
    return this.#api.call({ op, method: 'POST', path: one(this.#name, `/code/contexts/${part(op, 'id', id)}/restart`), signal: options.signal })
  }

  /** Ends a context. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    const op = 'delete code context'
    await this.#api.call({ op, method: 'DELETE', path: one(this.#name, `/code/contexts/${part(op, 'id', id)}`), signal: options.signal })
  }
}
