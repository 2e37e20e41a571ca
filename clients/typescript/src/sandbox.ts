import { Browser } from './browser.js'
import { Client, type ClientOptions } from './client.js'
import { Code, Contexts, type CodeOptions, type CodeRun, type CodeStreamEvent } from './code.js'
import { checkpointPages, execOf, one, seconds, withInput, type Api, type Command, type Schemas } from './api.js'
import { invalid, NotFoundError } from './errors.js'
import { Files } from './files.js'
import { Ports } from './ports.js'
import { collect, Process, stream, terminalOf, type OutputHandlers, type StartOptions, type StreamEvent, type StreamOptions } from './process.js'
import { checked, resultOf, type Result } from './result.js'
import { Shell, type ShellOptions } from './shell.js'
import { Terminal, type TerminalOptions } from './terminal.js'
import { Tools } from './tools.js'
import { part, type Bytes, type CallOptions, type Query, type Request } from './transport.js'

/** What the daemon reports of a sandbox. */
export type SandboxInfo = Schemas['Sandbox']

/** A kept state of a sandbox. */
export type CheckpointInfo = Schemas['Checkpoint']

/** What a rollback came to. */
export type RolledBack = Schemas['RolledBack']

/** One fork, or in problem why there is none. */
export type Forked = Schemas['Forked']

/** Which forks to make. */
export interface ForkOptions extends CallOptions {
  /** How many; 1 without. */
  count?: number | undefined
  /** Their sessions, instead of count; SESSION-fork-1 and so on without. */
  sessions?: readonly string[] | undefined
  /** The checkpoint, or its id or name, that they begin with; without, the state of the sandbox. */
  fromCheckpoint?: string | CheckpointInfo | undefined
}

/** The changes of a private workspace. */
export type ChangeList = Schemas['ChangeList']

/** One change. */
export type WorkspaceChange = Schemas['WorkspaceChange']

/** What an apply came to, or would come to. */
export type AppliedChanges = Schemas['AppliedChanges']

/** What an undo came to. */
export type UndoneChanges = Schemas['UndoneChanges']

/** Which changes are meant. */
export interface ChangesOptions extends CallOptions {
  /** Files and folders, relative to the workspace; all without. */
  paths?: readonly string[] | undefined
  /** The checkpoint, or its id or name, that they are changes since. */
  since?: string | CheckpointInfo | undefined
}

/** What to apply. */
export interface ApplyOptions extends CallOptions {
  /** Files and folders, relative to the workspace; all without. */
  paths?: readonly string[] | undefined
  /** Plan, and write nothing. */
  dryRun?: boolean | undefined
  /** Leave out what conflicts or has no consent. */
  partial?: boolean | undefined
  /** Of a plan that was shown before: another one is refused. */
  digest?: string | undefined
  /** Consents to what makes programs of the daemon's machine run code, by risk. */
  allowRisks?: readonly string[] | undefined
  /** Consents by path, for what lies below it too. */
  allowPaths?: readonly string[] | undefined
}

const changesQuery = (options: ChangesOptions): Query => ({
  path: options.paths,
  since: options.since === undefined ? undefined : refOf(options.since),
})

/** What names a checkpoint. */
const refOf = (checkpoint: string | CheckpointInfo): string => (typeof checkpoint === 'string' ? checkpoint : checkpoint.id)

/** Rules for what programs reach; without any they reach nothing. */
export type NetworkRules = Schemas['NetworkRules']

/** What a sandbox is to have beside what the settings give. */
export interface SandboxOptions extends ClientOptions, CallOptions {
  /** A client to use; its daemon is left alone at the end. */
  client?: Client | undefined
  /** The image of containers. */
  image?: string | undefined
  /** The preset under the settings. */
  preset?: 'strict' | 'restricted' | 'normal' | 'permissive' | undefined
  /** Variables of every command. */
  env?: Readonly<Record<string, string>> | undefined
  /** Texts to find it by. */
  labels?: Readonly<Record<string, string>> | undefined
  /** Texts that are kept with it. */
  metadata?: Readonly<Record<string, string>> | undefined
  network?: NetworkRules | undefined
  /**
   * Variables of the daemon's process and the hosts whose requests get their values;
   * programs see a stand-in. For admins, as settings are.
   */
  secrets?: Readonly<Record<string, readonly string[]>> | undefined
  /** Seconds until it ends, whatever runs in it. */
  timeout?: number | undefined
  /** What happens then; "kill" without. */
  onTimeout?: 'kill' | 'pause' | undefined
  /** Whether its next use resumes it once it is paused. */
  autoResume?: boolean | undefined
  /** Memory and disk in bytes, cpus, processes. */
  limits?: Schemas['Resources'] | undefined
  /** The checkpoint, or its id or name, that a new sandbox begins with; refused where the session has a sandbox. */
  fromCheckpoint?: string | CheckpointInfo | undefined
  /** Settings that are laid over those of the daemon, for admins; see docs/settings.md. */
  settings?: Readonly<Record<string, unknown>> | undefined
  /** A folder of the daemon's machine as the workspace, for admins. */
  workspace?: string | undefined
  /**
   * Whether it stays at the end of `using`. With a session it does unless this is
   * false, without one it does only if this is true.
   */
  keep?: boolean | undefined
}

/** Choices of a command that is run to its end. */
export interface RunOptions extends StreamOptions, OutputHandlers {
  /** Throws a CommandError when it ends with another status than 0. */
  check?: boolean | undefined
}

/** How much output is kept of a command whose output is passed on. */
const maxCollected = 16 << 20

/** The most bytes of the header with settings. */
const maxSettings = 24 << 10

/**
 * The sandbox of a session.
 *
 *     await using sandbox = await Sandbox.open('chat-42')
 *     const { stdout } = await sandbox.run("python3 -c 'print(1)'")
 */
export class Sandbox {
  /** The name, as "sandbox list" and the HTTP API have it. */
  readonly name: string
  /** The session that it belongs to. */
  readonly session: string
  /** The agent that it belongs to. */
  readonly agent: string
  readonly client: Client
  readonly files: Files
  readonly ports: Ports
  readonly tools: Tools
  readonly browser: Browser
  readonly contexts: Contexts
  /** Egress rules, which hold at once. */
  readonly network: { set(rules: NetworkRules, options?: CallOptions): Promise<SandboxInfo> }
  readonly #api: Api
  readonly #code: Code
  readonly #keep: boolean
  readonly #owned: boolean
  #closing: Promise<void> | undefined

  /** @internal */
  constructor(client: Client, api: Api, info: SandboxInfo, keep: boolean, owned: boolean) {
    this.client = client
    this.name = info.name
    this.session = info.session
    this.agent = info.agent
    this.#api = api
    this.#keep = keep
    this.#owned = owned
    this.files = new Files(api, info.name)
    this.ports = new Ports(api, info.name, client.token)
    this.tools = new Tools(api, info.name)
    this.browser = new Browser(api, info.name)
    this.contexts = new Contexts(api, info.name)
    this.#code = new Code(api, info.name)
    this.network = {
      set: (rules, options = {}) =>
        api.call<SandboxInfo>({ op: 'set network', method: 'PUT', path: one(info.name, '/network'), json: rules, signal: options.signal }),
    }
  }

  /**
   * Makes the sandbox of a session ready: it makes, starts or thaws it. The same
   * session finds the same sandbox again. Without a session it is a new sandbox, which
   * is removed at the end of `using`.
   */
  static async open(session?: string | SandboxOptions, options: SandboxOptions = {}): Promise<Sandbox> {
    if (typeof session === 'object') {
      options = session
      session = undefined
    }
    const op = 'create sandbox'
    if (session === '') throw invalid(op, 'session', 'it is empty', 'leave it out for a sandbox of its own')
    return owning(options, async (client, owned) => {
      const who = session ?? `sdk-${crypto.randomUUID()}`
      const api = client.api.with({ tenant: options.tenant, agent: options.agent, session: who }, settingsOf(options) ?? client.api.settings)
      const json = creation(op, options)
      const info = await api.call<SandboxInfo>({ op, method: 'POST', path: '/v1/sandboxes', json, signal: options.signal })
      return new Sandbox(client, api, info, options.keep ?? session !== undefined, owned)
    })
  }

  /** Takes a sandbox that exists by its name. */
  static async connect(name: string, options: Pick<SandboxOptions, keyof ClientOptions | 'client' | 'keep' | 'signal'> = {}): Promise<Sandbox> {
    return owning(options, async (client, owned) => {
      const api = client.api.with({ tenant: options.tenant, agent: options.agent, session: '' })
      const info = await api.call<SandboxInfo>({ op: 'get sandbox', method: 'GET', path: one(name), again: true, signal: options.signal })
      return new Sandbox(client, client.api.with({ tenant: info.tenant, agent: info.agent, session: info.session }), info, options.keep ?? true, owned)
    })
  }

  /** Tells what there is to know of it now. */
  async info(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#api.call({ op: 'get sandbox', method: 'GET', path: one(this.name), again: true, signal: options.signal })
  }

  /**
   * Runs a command to its end and returns its output. A string is a line for the
   * shell, a list is a program and its arguments. That it fails is a result and no
   * error, unless check is set. With onStdout or onStderr its output comes as it is
   * written, and the result has the last 16 MiB of each.
   */
  async run(command: Command, options: RunOptions = {}): Promise<Result> {
    const op = 'run'
    if (options.onStdout !== undefined || options.onStderr !== undefined) {
      return collect(this.stream(command, options), maxCollected, { ...options, op })
    }
    const json = execOf(op, command, options)
    await withInput(op, json, options.stdin)
    const request: Request = { op, method: 'POST', path: one(this.name, '/exec'), json, signal: options.signal }
    return checked(op, resultOf(await this.#api.call<Schemas['ExecResult']>(request)), options.check)
  }

  /**
   * Runs a command and returns what it comes to, in the order in which the daemon sends
   * it. A connection that breaks is taken up again. Leaving the loop ends the command.
   */
  stream(command: Command, options: StreamOptions = {}): AsyncGenerator<StreamEvent, void, undefined> {
    const op = 'run'
    const json: Schemas['ExecStream'] = execOf(op, command, options)
    return stream(this.#api, this.name, json, options.signal, () => withInput(op, json, options.stdin))
  }

  /**
   * Starts a command in the background, and returns when it runs. A signal that aborts
   * before rejects at once; the command, which can run by then, is ended.
   */
  async start(command: Command, options: StartOptions = {}): Promise<Process> {
    const op = 'start process'
    const json: Schemas['StartProcess'] = execOf(op, command, options)
    const { stdin } = options
    if (stdin === undefined || stdin === true) json.stdinOpen = true
    else if (stdin !== false) await withInput(op, json, stdin)
    const tty = terminalOf(options.tty)
    if (tty !== undefined) json.tty = tty
    if (options.tag !== undefined) json.tag = options.tag
    const { signal } = options
    signal?.throwIfAborted()
    // Not aborted itself: without its answer a process that was started could not be ended.
    const starting = this.#api.call<Schemas['Process']>({ op, method: 'POST', path: one(this.name, '/processes'), json })
    const process = starting.then((info) => new Process(this.#api, this.name, info))
    if (signal === undefined) return process
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        reject(signal.reason as Error)
        process.then((late) => late.kill()).catch(() => undefined) // it has not begun, or has ended
      }
      signal.addEventListener('abort', stop, { once: true })
      process.finally(() => signal.removeEventListener('abort', stop)).then(resolve, reject)
    })
  }

  /** Lists the processes of the session, the oldest first, also those that ended a short time ago. */
  async processes(options: CallOptions = {}): Promise<Process[]> {
    const list = await this.#api.call<Schemas['ProcessList']>({
      op: 'list processes',
      method: 'GET',
      path: one(this.name, '/processes'),
      again: true,
      signal: options.signal,
    })
    return list.items.map((info) => new Process(this.#api, this.name, info))
  }

  /** Finds a process by its id, its number or its tag. */
  async process(ref: string | number, options: CallOptions = {}): Promise<Process> {
    const op = 'show process'
    const path = one(this.name, `/processes/${part(op, 'pid', String(ref))}`)
    return new Process(this.#api, this.name, await this.#api.call({ op, method: 'GET', path, again: true, signal: options.signal }))
  }

  /** Opens a shell that keeps its folder and its variables. */
  async shell(options: ShellOptions = {}): Promise<Shell> {
    return Shell.open(this.#api, this.name, options)
  }

  /** Lists the shells of the session. */
  async shells(options: CallOptions = {}): Promise<readonly Schemas['Shell'][]> {
    const op = 'list shells'
    return (await this.#api.call<Schemas['ShellList']>({ op, method: 'GET', path: one(this.name, '/shells'), again: true, signal: options.signal })).items
  }

  /** Opens a terminal, with a shell unless a command is given. */
  async terminal(options: TerminalOptions = {}): Promise<Terminal> {
    return Terminal.open(this.#api, this.name, options)
  }

  /** Lists the terminals that stay. */
  async terminals(options: CallOptions = {}): Promise<readonly Schemas['Terminal'][]> {
    const request = { op: 'list terminals', method: 'GET', path: one(this.name, '/terminals'), again: true, signal: options.signal } as const
    return (await this.#api.call<Schemas['TerminalList']>(request)).items
  }

  /** Ends a terminal that stays. */
  async endTerminal(id: string, options: CallOptions = {}): Promise<void> {
    const op = 'end terminal'
    await this.#api.call({ op, method: 'DELETE', path: one(this.name, `/terminals/${part(op, 'id', id)}`), signal: options.signal })
  }

  /** Copies files from outside, which the settings permit, into the workspace. */
  async stageMedia(refs: readonly string[], options: CallOptions = {}): Promise<readonly Schemas['StagedFile'][]> {
    const request = { op: 'stage media', method: 'POST', path: one(this.name, '/media'), json: { refs }, signal: options.signal } as const
    return (await this.#api.call<Schemas['StagedMedia']>(request)).items
  }

  /** Runs code in a kernel, which keeps its variables from run to run. That it fails is in the answer. */
  async runCode(code: string, options: CodeOptions = {}): Promise<CodeRun> {
    return this.#code.run(code, options)
  }

  /** Runs code and returns what it comes to as it comes; leaving the loop interrupts it. */
  streamCode(code: string, options: CodeOptions = {}): AsyncGenerator<CodeStreamEvent, void, undefined> {
    return this.#code.stream(code, options)
  }

  /** Freezes it until its next use; with force also while something runs in it. */
  async pause(options: CallOptions & { force?: boolean | undefined } = {}): Promise<SandboxInfo> {
    return this.#post('pause sandbox', '/pause', undefined, options, options.force === true ? { force: true } : undefined)
  }

  /** Thaws it. */
  async resume(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#post('resume sandbox', '/resume', undefined, options)
  }

  /** Keeps it for so many seconds from now on. */
  async extend(ttl: number, options: CallOptions = {}): Promise<SandboxInfo> {
    const op = 'extend sandbox'
    return this.#post(op, '/extend', { ttlSeconds: upwards(op, 'seconds', ttl) }, options)
  }

  /** Lets it end so many seconds from now, whatever runs in it. */
  async setTimeout(timeout: number, options: CallOptions = {}): Promise<SandboxInfo> {
    const op = 'set timeout'
    return this.#post(op, '/timeout', { timeout: upwards(op, 'seconds', timeout) }, options)
  }

  /** Removes it and makes it anew; its workspace stays. */
  async recreate(options: CallOptions & { force?: boolean | undefined } = {}): Promise<SandboxInfo> {
    return this.#post('recreate sandbox', '/recreate', { force: options.force === true }, options)
  }

  /**
   * Keeps its state, to go back to and to begin others with. What runs goes on, and is not
   * kept. No two checkpoints of a tenant have the same name.
   */
  async checkpoint(name?: string, options: CallOptions = {}): Promise<CheckpointInfo> {
    const json = name === undefined ? {} : { name }
    return this.#api.call({ op: 'create checkpoint', method: 'POST', path: one(this.name, '/checkpoints'), json, signal: options.signal })
  }

  /** Returns its checkpoints, the oldest first. */
  async checkpoints(options: CallOptions = {}): Promise<readonly CheckpointInfo[]> {
    const all: CheckpointInfo[] = []
    for await (const found of checkpointPages(this.#api, one(this.name, '/checkpoints'), {}, options.signal)) all.push(found)
    return all
  }

  /** Gives it the state of a checkpoint. What runs in it is ended, and what it holds is given up. */
  async rollback(checkpoint: string | CheckpointInfo, options: CallOptions = {}): Promise<RolledBack> {
    const json = { checkpoint: refOf(checkpoint) }
    return this.#api.call({ op: 'roll back', method: 'POST', path: one(this.name, '/rollback'), json, signal: options.signal })
  }

  /**
   * Makes sandboxes that begin with the state of this one, which goes on, or of a checkpoint.
   * One that could not be made has a problem, and the others are made.
   */
  async fork(options: ForkOptions = {}): Promise<readonly Forked[]> {
    const json: Schemas['Fork'] = {}
    if (options.count !== undefined) json.count = options.count
    if (options.sessions !== undefined) json.sessions = [...options.sessions]
    if (options.fromCheckpoint !== undefined) json.from = refOf(options.fromCheckpoint)
    const request = { op: 'fork', method: 'POST', path: one(this.name, '/fork'), json, signal: options.signal } as const
    return (await this.#api.call<Schemas['ForkList']>(request)).items
  }

  /** Returns what differs from the folder that the private workspace was made of, or from a checkpoint. */
  async changes(options: ChangesOptions = {}): Promise<ChangeList> {
    return this.#api.call({ op: 'list changes', method: 'GET', path: one(this.name, '/changes'), query: changesQuery(options), signal: options.signal })
  }

  /** Returns the changes as text. Names of files are bytes, and so is this. */
  async diff(options: ChangesOptions & { format?: 'patch' | 'stat' | 'name-only' | undefined } = {}): Promise<Uint8Array> {
    const query = { ...changesQuery(options), format: options.format ?? 'patch' }
    return (await this.#api.bytes({ op: 'diff', method: 'GET', path: one(this.name, '/changes'), query, signal: options.signal })).body
  }

  /**
   * Does to the folder of the daemon's machine what the workspace changed. For admins. What is
   * refused or conflicts is in plan, and problem says so; nothing is done then without partial.
   */
  async apply(options: ApplyOptions = {}): Promise<AppliedChanges> {
    const { signal, ...rest } = options
    const json = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
    return this.#api.call({ op: 'apply', method: 'POST', path: one(this.name, '/apply'), json, signal })
  }

  /** Gives up the changes of the workspace, all of them or those of the paths, and returns them. */
  async discard(options: CallOptions & { paths?: readonly string[] | undefined } = {}): Promise<readonly WorkspaceChange[]> {
    const json = options.paths === undefined ? {} : { paths: [...options.paths] }
    const request = { op: 'discard', method: 'POST', path: one(this.name, '/discard'), json, signal: options.signal } as const
    return (await this.#api.call<Schemas['DiscardedChanges']>(request)).items
  }

  /** Takes back the last apply, or the one with that id. For admins. */
  async undo(options: CallOptions & { id?: string | undefined; partial?: boolean | undefined } = {}): Promise<UndoneChanges> {
    const json: Schemas['UndoChanges'] = {}
    if (options.id !== undefined) json.id = options.id
    if (options.partial !== undefined) json.partial = options.partial
    return this.#api.call({ op: 'undo', method: 'POST', path: one(this.name, '/undo'), json, signal: options.signal })
  }

  /** Tells what it uses. */
  async usage(options: CallOptions = {}): Promise<Schemas['Usage']> {
    return this.#api.call({ op: 'usage', method: 'GET', path: one(this.name, '/usage'), again: true, signal: options.signal })
  }

  /** Ends what runs in it and removes it with its files. That it is not there is no error. */
  async remove(options: CallOptions = {}): Promise<void> {
    try {
      const query = { workspace: true, force: true }
      await this.#api.call({ op: 'remove sandbox', method: 'DELETE', path: one(this.name), query, signal: options.signal })
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error
    }
  }

  /** Makes a request of the HTTP API on behalf of the session, for what has no method here. */
  async request<T = unknown>(request: RawRequest): Promise<T> {
    return this.#api.call<T>({ op: 'request', ...request })
  }

  async #post(op: string, below: string, json: unknown, options: CallOptions, query?: Query): Promise<SandboxInfo> {
    return this.#api.call({ op, method: 'POST', path: one(this.name, below), json, query, signal: options.signal })
  }

  /** Removes the sandbox unless it is kept, and closes a client that was made for it. */
  close(): Promise<void> {
    return (this.#closing ??= (async () => {
      try {
        if (!this.#keep) await this.remove()
      } finally {
        if (this.#owned) await this.client.close()
      }
    })())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** A request for what has no method here. */
export interface RawRequest extends CallOptions {
  method: Request['method']
  /** With its beginning, such as "/v1/pool"; parts are escaped already. */
  path: string
  query?: Query | undefined
  headers?: Readonly<Record<string, string>> | undefined
  json?: unknown
  body?: Bytes | undefined
}

/** Makes something with the client of the options, or with one that is closed when that fails. */
async function owning<T>(options: SandboxOptions, make: (client: Client, owned: boolean) => Promise<T>): Promise<T> {
  if (options.client !== undefined) {
    for (const name of ['url', 'token', 'binary', 'stateDir', 'config'] as const) {
      if (options[name] !== undefined) throw invalid('open sandbox', name, 'the client has it already', 'give either a client or the address of a daemon')
    }
    return make(options.client, false)
  }
  const client = await Client.open(options)
  try {
    return await make(client, true)
  } catch (error) {
    await client.close()
    throw error
  }
}

function upwards(op: string, field: string, value: number): number {
  return Math.ceil(seconds(op, field, value) as number)
}

function creation(op: string, o: SandboxOptions): Schemas['CreateSandbox'] {
  const r: Schemas['CreateSandbox'] = {}
  if (o.image !== undefined) r.image = o.image
  if (o.preset !== undefined) r.preset = o.preset
  if (o.env !== undefined) r.env = o.env
  if (o.labels !== undefined) r.labels = o.labels
  if (o.metadata !== undefined) r.metadata = o.metadata
  if (o.network !== undefined) r.network = o.network
  if (o.timeout !== undefined) r.timeout = upwards(op, 'timeout', o.timeout)
  if (o.onTimeout !== undefined) r.onTimeout = o.onTimeout
  if (o.autoResume !== undefined) r.autoResume = o.autoResume
  if (o.limits !== undefined) r.resources = o.limits
  if (o.fromCheckpoint !== undefined) r.from = refOf(o.fromCheckpoint)
  return r
}

/** The value of the header with settings: JSON in ASCII. */
function settingsOf(o: SandboxOptions): string | undefined {
  if (o.settings === undefined && o.workspace === undefined && o.secrets === undefined) return undefined
  const settings: Record<string, unknown> = { ...o.settings }
  if (o.secrets !== undefined) {
    const network = (settings['network'] ?? {}) as Record<string, unknown>
    const secrets = Object.fromEntries(Object.entries(o.secrets).map(([name, hosts]) => [name, { hosts }]))
    settings['network'] = { ...network, secrets: { ...(network['secrets'] as object | undefined), ...secrets } }
  }
  const flags = { ...(Object.keys(settings).length > 0 ? { settings } : {}), ...(o.workspace !== undefined ? { workspace: o.workspace } : {}) }
  const text = JSON.stringify(flags).replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
  if (text.length > maxSettings) {
    throw invalid('send settings', 'settings', `the settings of the call have ${text.length} bytes, and at most ${maxSettings} can be sent`, 'put them into the settings file of the daemon')
  }
  return text
}
