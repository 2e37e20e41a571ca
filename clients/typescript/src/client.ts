import { Api, checkpointPages, one, type Schemas, type Scope } from './api.js'
import { embedded, type DaemonOptions, type Embedded } from './daemon.js'
import { errorOf, invalid, SandboxError } from './errors.js'
import { Sandbox, type CheckpointInfo, type RawRequest, type SandboxInfo, type SandboxOptions } from './sandbox.js'
import { abandonable, part, place, rest, Transport, type CallOptions, type Query } from './transport.js'

/** Where the daemon is, and on whose behalf calls are made. */
export interface ClientOptions extends Scope, DaemonOptions {
  /**
   * unix:PATH, tcp:HOST:PORT, http://HOST[:PORT] or https://HOST; $SANDBOX_SERVER without. With
   * neither, a daemon is started that ends with this process.
   */
  url?: string | undefined
  /** The token; $SANDBOX_TOKEN without. */
  token?: string | undefined
}

/** Which records are wanted. */
export interface RecordFilter extends CallOptions {
  limit?: number | undefined
  agent?: string | undefined
  session?: string | undefined
  sandbox?: string | undefined
  /** Not before this time. */
  since?: Date | string | undefined
  /** Before this time. */
  until?: Date | string | undefined
  /** Every tenant's; for admins. */
  all?: boolean | undefined
}

export type TokenInfo = Schemas['Token']
export type NewToken = Schemas['NewToken']

/** A daemon on behalf of a caller. */
export class Client {
  /** The token, where there is one. @internal */
  readonly token: string | undefined
  /** @internal */
  readonly api: Api
  readonly tokens: Tokens
  readonly approvals: Approvals
  readonly #daemon: Embedded | undefined
  readonly #root: boolean
  #closing: Promise<void> | undefined

  private constructor(api: Api, token: string | undefined, daemon: Embedded | undefined, root: boolean) {
    this.api = api
    this.token = token
    this.#daemon = daemon
    this.#root = root
    this.tokens = new Tokens(api)
    this.approvals = new Approvals(api)
  }

  /** Connects to a daemon, or starts one; it fails when none answers. */
  static async open(options: ClientOptions & CallOptions = {}): Promise<Client> {
    const url = options.url ?? (process.env['SANDBOX_SERVER'] || undefined)
    const token = options.token ?? (process.env['SANDBOX_TOKEN'] || undefined)
    if (url === '') throw invalid('reach daemon', 'url', 'it is empty', 'leave it out to start a daemon')
    if (token === '') throw invalid('reach daemon', 'token', 'it is empty', 'leave it out where none is needed')
    const scope: Scope = { tenant: options.tenant, agent: options.agent, session: options.session }
    if (url !== undefined) return Client.#begin(url, token, scope, undefined, options)
    let daemon = await embedded(options, options.signal)
    try {
      // One that was shared may just have been killed: the next one is about to listen.
      for (let tries = 0; ; tries++) {
        try {
          return await Client.#begin(daemon.url, options.token, scope, daemon, options)
        } catch (error) {
          if (tries >= 20 || !(error instanceof SandboxError) || error.code !== 'PROVIDER.UNAVAILABLE') throw error
          await rest(100, options.signal)
          if (!daemon.alive) {
            await daemon.release()
            daemon = await embedded(options, options.signal)
          }
        }
      }
    } catch (error) {
      await daemon.release()
      throw error
    }
  }

  static async #begin(url: string, token: string | undefined, scope: Scope, daemon: Embedded | undefined, o: CallOptions): Promise<Client> {
    const transport = new Transport(place(url), token)
    try {
      const client = new Client(new Api(transport, scope), token, daemon, true)
      await client.health(o)
      return client
    } catch (error) {
      transport.close()
      throw error
    }
  }

  /** Returns a client of the same daemon, over the same connections, on behalf of others. Closing it has no effect. */
  for(scope: Scope): Client {
    return new Client(this.api.with(scope), this.token, undefined, false)
  }

  /** Reports whether the process answers; it needs no token. */
  async health(options: CallOptions = {}): Promise<Schemas['Health']> {
    return this.api.call({ op: 'health', method: 'GET', path: '/healthz', again: true, signal: options.signal })
  }

  /** Tells what was looked at; a daemon that cannot serve is an error that names what hinders it. */
  async ready(options: CallOptions = {}): Promise<Schemas['Readiness']> {
    return this.api.call({ op: 'readiness', method: 'GET', path: '/readyz', signal: options.signal })
  }

  /** Makes the sandbox of a session ready, as Sandbox.open does. */
  async open(session?: string, options: Omit<SandboxOptions, 'client' | 'url' | 'token' | 'binary' | 'stateDir' | 'config'> = {}): Promise<Sandbox> {
    return Sandbox.open(session, { ...options, client: this })
  }

  /** Takes a sandbox that exists by its name. */
  async sandbox(name: string, options: CallOptions & { keep?: boolean | undefined } = {}): Promise<Sandbox> {
    return Sandbox.connect(name, { ...options, client: this })
  }

  /** Lists sandboxes in order of their names, page by page. */
  async *sandboxes(
    options: CallOptions & {
      labels?: Readonly<Record<string, string>> | undefined
      agent?: string | undefined
      session?: string | undefined
      status?: SandboxInfo['status'] | undefined
      kind?: SandboxInfo['kind'] | undefined
      all?: boolean | undefined
      /** Only that of the client's own session. */
      own?: boolean | undefined
    } = {},
  ): AsyncGenerator<SandboxInfo, void, undefined> {
    const op = 'list sandboxes'
    const { labels, agent, session, status, kind, all, own, signal } = options
    const label = labels === undefined ? undefined : Object.entries(labels).map(([name, value]) => `${name}=${value}`)
    let cursor: string | undefined
    for (;;) {
      const query: Query = { label, agent, session, status, kind, all, own, cursor }
      const page = await this.api.call<Schemas['SandboxPage']>({ op, method: 'GET', path: '/v1/sandboxes', query, again: true, signal })
      yield* page.items
      const next = page.next ?? ''
      if (next === '') return
      if (next === cursor || page.items.length === 0) throw errorOf('PROVIDER.UNAVAILABLE', 'the daemon answers with pages without end', { op })
      cursor = next
    }
  }

  /** Removes a sandbox by its name, with its files unless workspace is false; with force also while it is in use. */
  async remove(name: string, options: CallOptions & { workspace?: boolean | undefined; force?: boolean | undefined } = {}): Promise<void> {
    const query: Query = { workspace: options.workspace !== false, force: options.force === true }
    await this.api.call({ op: 'remove sandbox', method: 'DELETE', path: one(name), query, signal: options.signal })
  }

  /** Lists checkpoints, the oldest first, page by page. */
  checkpoints(
    options: CallOptions & { agent?: string | undefined; session?: string | undefined; sandbox?: string | undefined } = {},
  ): AsyncGenerator<CheckpointInfo, void, undefined> {
    const { agent, session, sandbox, signal } = options
    return checkpointPages(this.api, '/v1/checkpoints', { agent, session, sandbox }, signal)
  }

  /** Returns the checkpoint with that id or name. */
  async checkpoint(ref: string, options: CallOptions = {}): Promise<CheckpointInfo> {
    const op = 'get checkpoint'
    return this.api.call({ op, method: 'GET', path: `/v1/checkpoints/${part(op, 'ref', ref)}`, again: true, signal: options.signal })
  }

  /** Removes a checkpoint by its id or name. Sandboxes that began with it keep their files. */
  async removeCheckpoint(ref: string, options: CallOptions = {}): Promise<void> {
    const op = 'remove checkpoint'
    await this.api.call({ op, method: 'DELETE', path: `/v1/checkpoints/${part(op, 'ref', ref)}`, signal: options.signal })
  }

  /** Tells what the caller's sandboxes use. */
  async usage(options: CallOptions = {}): Promise<readonly Schemas['Usage'][]> {
    const list = await this.api.call<Schemas['UsageList']>({ op: 'usage', method: 'GET', path: '/v1/usage', again: true, signal: options.signal })
    return list.items
  }

  /** What rules stopped, the newest first. */
  violations(
    filter: RecordFilter & { type?: readonly string[] | undefined; severity?: 'low' | 'medium' | 'high' | 'critical' | undefined } = {},
  ): AsyncGenerator<Schemas['ViolationRecord'], void, undefined> {
    return this.#records('list violations', '/v1/violations', filter, { type: filter.type, severity: filter.severity })
  }

  /** What has happened, the newest first. */
  evidence(filter: RecordFilter & { type?: readonly string[] | undefined; command?: string | undefined } = {}): AsyncGenerator<Schemas['EvidenceRecord'], void, undefined> {
    return this.#records('list evidence', '/v1/evidence', filter, { type: filter.type, command: filter.command })
  }

  #records<T>(op: string, path: string, f: RecordFilter, more: Query): AsyncGenerator<T, void, undefined> {
    const time = (at: Date | string | undefined): string | undefined => (at instanceof Date ? at.toISOString() : at)
    const query: Query = { limit: f.limit, agent: f.agent, session: f.session, sandbox: f.sandbox, since: time(f.since), until: time(f.until), all: f.all, ...more }
    const api = this.api
    return abandonable(f.signal, async function* (signal) {
      for await (const event of api.events({ op, method: 'GET', path, query, again: true, signal })) {
        if (event.name === 'record') yield event.data as T
        else if (event.name === 'damaged') throw errorOf('PROVIDER.UNAVAILABLE', 'a place of the records cannot be read', { op, hint: 'run `sandbox evidence verify`' })
        else if (event.name === 'end') return
      }
    })
  }

  /** Makes a request of the HTTP API, for what has no method here. */
  async request<T = unknown>(request: RawRequest): Promise<T> {
    if (!request.path.startsWith('/') || /[\s#]/.test(request.path)) throw invalid('request', 'path', 'it is no path of a request', 'write /v1/…, with its parts escaped')
    return this.api.call<T>({ op: 'request', ...request })
  }

  /** Ends all connections, and the daemon that was started for the client. */
  close(): Promise<void> {
    return (this.#closing ??= (async () => {
      if (!this.#root) return
      this.api.transport.close()
      await this.#daemon?.release()
    })())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Tokens that were made from the caller's own. */
export class Tokens {
  readonly #api: Api

  /** @internal */
  constructor(api: Api) {
    this.#api = api
  }

  /** Makes a token with less than the caller's own, or as much. Its secret is shown once. */
  async create(token: Schemas['CreateToken'], options: CallOptions = {}): Promise<NewToken> {
    return this.#api.call({ op: 'create token', method: 'POST', path: '/v1/tokens', json: token, signal: options.signal })
  }

  async list(options: CallOptions = {}): Promise<readonly TokenInfo[]> {
    return (await this.#api.call<Schemas['TokenList']>({ op: 'list tokens', method: 'GET', path: '/v1/tokens', again: true, signal: options.signal })).items
  }

  async get(id: string, options: CallOptions = {}): Promise<TokenInfo> {
    const op = 'get token'
    return this.#api.call({ op, method: 'GET', path: `/v1/tokens/${part(op, 'id', id)}`, again: true, signal: options.signal })
  }

  /** Revokes a token with those made from it, and returns their ids. */
  async revoke(id: string, options: CallOptions = {}): Promise<readonly string[]> {
    const op = 'revoke token'
    return (await this.#api.call<Schemas['Revoked']>({ op, method: 'DELETE', path: `/v1/tokens/${part(op, 'id', id)}`, signal: options.signal })).revoked
  }
}

export type ApprovalInfo = Schemas['Approval']

/** The questions of calls with `ask`. */
export class Approvals {
  readonly #api: Api

  /** @internal */
  constructor(api: Api) {
    this.#api = api
  }

  /** Lists the questions that wait for an answer; with wait it waits so many seconds for one. */
  async list(options: CallOptions & { wait?: number | undefined } = {}): Promise<readonly ApprovalInfo[]> {
    const query: Query = { waitSeconds: options.wait }
    const request = { op: 'list approvals', method: 'GET', path: '/v1/approvals', query, again: true, signal: options.signal } as const
    return (await this.#api.call<Schemas['ApprovalList']>(request)).items
  }

  /** Answers a question. The first answer counts. */
  async answer(id: string, permission: Schemas['AnswerApproval']['permission'], options: CallOptions & { note?: string | undefined } = {}): Promise<void> {
    const op = 'answer approval'
    const json: Schemas['AnswerApproval'] = { permission }
    if (options.note !== undefined) json.note = options.note
    await this.#api.call({ op, method: 'POST', path: `/v1/approvals/${part(op, 'id', id)}`, json, signal: options.signal })
  }
}
