import { one, type Api, type Schemas } from './api.js'
import { errorOf } from './errors.js'
import { part, type CallOptions, type Query, type Request } from './transport.js'

export type ToolInfo = Schemas['Tool']
export type ToolAnswer = Schemas['ToolAnswer']
export type ToolProgress = Schemas['ToolProgress']

/** How a tool is called. */
export interface ToolOptions extends CallOptions {
  /** Have a person asked where a permission opens what a rule stops. */
  ask?: boolean | undefined
  /** Is called as the tool goes on. */
  onProgress?: ((progress: ToolProgress) => void | Promise<void>) | undefined
}

/** The tools that an agent of the session may call. */
export class Tools {
  readonly #api: Api
  readonly #name: string

  /** @internal */
  constructor(api: Api, name: string) {
    this.#api = api
    this.#name = name
  }

  async list(options: CallOptions = {}): Promise<readonly ToolInfo[]> {
    const list = await this.#api.call<Schemas['ToolList']>({ op: 'list tools', method: 'GET', path: one(this.#name, '/tools'), again: true, signal: options.signal })
    return list.items
  }

  /** Calls a tool as an agent does; input is what its inputSchema says. */
  async call(name: string, input: Readonly<Record<string, unknown>> = {}, options: ToolOptions = {}): Promise<ToolAnswer> {
    const op = 'call tool'
    const query: Query = { ask: options.ask === true ? true : undefined }
    const request: Request = { op, method: 'POST', path: one(this.#name, `/tools/${part(op, 'tool', name)}`), query, json: input, signal: options.signal }
    if (options.onProgress === undefined) return this.#api.call(request)
    for await (const event of this.#api.events(request)) {
      if (event.name === 'progress') await options.onProgress(event.data as ToolProgress)
      else if (event.name === 'answer') return event.data as ToolAnswer
    }
    throw errorOf('PROVIDER.UNAVAILABLE', 'the stream was cut off, and it is not known what came after it', { op })
  }
}
