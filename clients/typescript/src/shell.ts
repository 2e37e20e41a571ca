import { one, seconds, withInput, type Api, type Schemas } from './api.js'
import { NotFoundError } from './errors.js'
import { collect, outputOf, outputs, type OutputHandlers, type StreamEvent } from './process.js'
import { checked, Result, resultOf } from './result.js'
import { abandonable, part, type Bytes, type CallOptions, type Request } from './transport.js'

/** Choices of a shell. */
export interface ShellOptions extends CallOptions {
  /** Where it starts; the workspace without. */
  cwd?: string | undefined
  env?: Readonly<Record<string, string>> | undefined
}

/** Choices of a line. */
export interface LineOptions extends CallOptions {
  /** The input of the line, of at most 1 MiB; empty without. */
  stdin?: Bytes | undefined
  /** The seconds that it may take; the settings say without. */
  timeout?: number | undefined
  tool?: string | undefined
  ask?: boolean | undefined
}

/** A shell that keeps folder, variables and functions from line to line. Lines take turns. */
export class Shell {
  readonly #api: Api
  readonly #name: string
  readonly id: string
  #closing: Promise<void> | undefined

  private constructor(api: Api, name: string, id: string) {
    this.#api = api
    this.#name = name
    this.id = id
  }

  /** @internal */
  static async open(api: Api, name: string, o: ShellOptions): Promise<Shell> {
    const json: Schemas['OpenShell'] = {}
    if (o.cwd !== undefined) json.dir = o.cwd
    if (o.env !== undefined) json.env = o.env
    const shell = await api.call<Schemas['Shell']>({ op: 'open shell', method: 'POST', path: one(name, '/shells'), json, signal: o.signal })
    return new Shell(api, name, shell.id)
  }

  async #request(op: string, line: string, o: LineOptions): Promise<Request> {
    const json: Schemas['RunLine'] = { line }
    const timeout = seconds(op, 'timeout', o.timeout)
    if (timeout !== undefined) json.timeoutSeconds = timeout
    if (o.tool !== undefined) json.tool = o.tool
    if (o.ask !== undefined) json.ask = o.ask
    await withInput(op, json, o.stdin)
    return { op, method: 'POST', path: one(this.#name, `/shells/${part(op, 'id', this.id)}/run`), json, signal: o.signal }
  }

  /** Runs a line, or several, to the end. A result with restarted says that the shell has begun anew. */
  async run(line: string, options: LineOptions & OutputHandlers & { check?: boolean | undefined } = {}): Promise<Result> {
    const op = 'run line'
    if (options.onStdout !== undefined || options.onStderr !== undefined) {
      return collect(this.stream(line, options), 16 << 20, { ...options, op })
    }
    const request = await this.#request(op, line, options)
    return checked(op, resultOf(await this.#api.call<Schemas['ExecResult']>(request)), options.check)
  }

  /**
   * Runs a line and returns what it comes to as it comes. Leaving the loop ends the
   * line. A stream that is cut off is an error: it is not known how the line ended.
   */
  stream(line: string, options: LineOptions = {}): AsyncGenerator<StreamEvent, void, undefined> {
    return abandonable(options.signal, async function* (this: Shell, signal: AbortSignal): AsyncGenerator<StreamEvent, void, undefined> {
      const request = await this.#request('run line', line, options)
      const output = outputs()
      for await (const event of this.#api.events({ ...request, signal })) {
        if (event.name === 'stdout' || event.name === 'stderr') yield output(event.name, outputOf(event.data))
        else if (event.name === 'again') {
          output.reset()
          yield { type: 'again' }
        } else if (event.name === 'exit') {
          const exit = event.data as Schemas['Exit']
          yield { type: 'exit', exitCode: exit.exitCode, result: new Result(exit, '', '') }
          return
        }
      }
    }.bind(this))
  }

  /** Closes the shell and ends what its lines have left running. Closing it again has no effect. */
  close(options: CallOptions = {}): Promise<void> {
    const op = 'close shell'
    return (this.#closing ??= this.#api
      .call<void>({ op, method: 'DELETE', path: one(this.#name, `/shells/${part(op, 'id', this.id)}`), signal: options.signal })
      .catch((error: unknown) => {
        if (error instanceof NotFoundError) return
        this.#closing = undefined
        throw error
      }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
