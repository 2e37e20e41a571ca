/**
 * A plugin of OpenClaw: the backend "bulkhead" of its sandboxes. Commands run by
 * `sandbox exec`, and files are reached through the daemon, without a command inside.
 *
 * The types are those of `openclaw/plugin-sdk/sandbox`, which is loaded when OpenClaw
 * registers the plugin; this module itself needs nothing of it.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { stat as statHost } from 'node:fs/promises'
import path from 'node:path'
import { errorOf, SandboxError } from '../errors.js'
import { Client, Sandbox, type ClientOptions } from '../index.js'
import { isNotFound, isRefusal, join } from './common.js'

/**
 * The id of the plugin and of its backend, which `agents.defaults.sandbox.backend` names:
 * OpenClaw's own commands find the plugin of a backend by the id that both have.
 */
export const pluginId = 'bulkhead'

/** The settings of the plugin, in `plugins.entries.bulkhead.config`. */
export interface PluginConfig {
  /** Address of the daemon, such as `unix:/run/sandbox.sock`; `$SANDBOX_SERVER` without it. */
  url?: string
  /** A file with the token; `$SANDBOX_TOKEN` without it. */
  tokenFile?: string
  tenant?: string
  agent?: string
  /** The program `sandbox`; the one on PATH without it. */
  binary?: string
  image?: string
  preset?: 'strict' | 'restricted' | 'normal' | 'permissive'
  /** Hosts that the sandboxes may reach, within what the settings of the daemon allow. */
  allowedDomains?: string[]
}

/** The part of what OpenClaw gives to a factory that is used here. */
export interface FactoryParams {
  sessionKey: string
  scopeKey: string
  workspaceDir: string
  agentWorkspaceDir: string
  skillsWorkspaceDir?: string
  readOnlyResourceMounts?: Array<{ hostPath: string; containerPath: string }>
  cfg: { workspaceAccess: 'none' | 'ro' | 'rw'; docker: { binds?: string[]; env?: Record<string, string> } }
}

export interface CommandParams {
  script: string
  args?: string[]
  stdin?: Buffer | string
  allowFailure?: boolean
  signal?: AbortSignal
}
export interface CommandResult {
  stdout: Buffer
  stderr: Buffer
  code: number
}
export interface ExecSpec {
  argv: string[]
  env: NodeJS.ProcessEnv
  stdinMode: 'pipe-open' | 'pipe-closed'
}

type At = { filePath: string; cwd?: string | undefined; signal?: AbortSignal | undefined }
type Content = { data: Buffer | string; encoding?: BufferEncoding; mkdir?: boolean }

/** The files of a sandbox as OpenClaw's tools use them. */
export interface FsBridge {
  readonly pathMappings: readonly { hostRoot: string; containerRoot: string }[]
  resolvePath(params: At): { relativePath: string; containerPath: string }
  readDirectory(params: At): Promise<{ name: string; isDirectory: boolean }[]>
  readFile(params: At & { maxBytes?: number }): Promise<Buffer>
  copyFile(params: { sourcePath: string; destinationPath: string; cwd?: string; signal?: AbortSignal }): Promise<void>
  writeFile(params: At & Content): Promise<void>
  createFileExclusive(params: At & Content): Promise<'created' | 'exists'>
  mkdirp(params: At): Promise<void>
  remove(params: At & { recursive?: boolean; force?: boolean }): Promise<void>
  rename(params: { from: string; to: string; cwd?: string; signal?: AbortSignal }): Promise<void>
  stat(params: At): Promise<{ type: 'file' | 'directory' | 'other'; size: number; mtimeMs: number } | null>
}

/** A sandbox of OpenClaw. */
export interface BackendHandle {
  id: string
  runtimeId: string
  runtimeLabel: string
  workdir: string
  env?: Record<string, string>
  configLabel: string
  configLabelKind: string
  workdirValidation: 'backend'
  validateWorkdir(workdir: string): Promise<string | null>
  workdirRoots: readonly string[]
  capabilities: { browser: false }
  buildExecSpec(params: { command: string; workdir?: string; env: Record<string, string>; usePty: boolean }): Promise<ExecSpec>
  runShellCommand(params: CommandParams): Promise<CommandResult>
  createFsBridge(params: { sandbox: { workspaceDir: string; skillsWorkspaceDir?: string; workspaceAccess: 'none' | 'ro' | 'rw' } }): FsBridge
}

type Entry = { containerName: string; image: string }

/** What registerSandboxBackend takes. */
export interface Registration {
  factory(params: FactoryParams): Promise<BackendHandle>
  manager: {
    describeRuntime(params: { entry: Entry }): Promise<{ running: boolean; actualConfigLabel?: string; configLabelMatch: boolean }>
    removeRuntime(params: { entry: Entry }): Promise<void>
  }
  resolveWorkdir(): string
}

/** The folder in which commands start, and the files of an agent lie. */
const workdir = '/workspace'

/** Where OpenClaw looks for the skills that it hands to a sandbox. */
const skillsFolder = `${workdir}/.openclaw/sandbox-skills`

/** The file that says that the files of the host's workspace are all there. */
const seeded = `${workdir}/.openclaw/sandbox-seeded`

/** Makes the registration of the backend. Nothing is connected to until a sandbox is needed. */
export function registration(config: PluginConfig = {}): Registration {
  const options = (): ClientOptions => ({
    url: addressOf(config),
    token: tokenOf(config),
    tenant: config.tenant,
    agent: config.agent,
  })
  const label = config.image ?? 'default'
  // The program of OpenClaw is one client of the daemon, however many sandboxes it has.
  let client: Promise<Client> | undefined
  const connection = () => {
    client ??= Client.open(options()).catch((error) => {
      client = undefined
      throw error
    })
    return client
  }

  async function existing(name: string): Promise<Sandbox | null> {
    try {
      return await Sandbox.connect(name, { client: await connection() })
    } catch (error) {
      if (isNotFound(error)) return null
      throw error
    }
  }

  return {
    async factory(params) {
      refuse(params)
      const session = sessionOf(params.scopeKey)
      const sandbox = await Sandbox.open(session, {
        client: await connection(),
        keep: true,
        image: config.image,
        preset: config.preset,
        network: config.allowedDomains ? { allowedDomains: config.allowedDomains } : undefined,
        labels: { 'openclaw.session': session },
      })
      await seed(sandbox, params)
      return new Backend(sandbox, session, config, label, params).handle()
    },
    manager: {
      // An engine that is away is an error: "stopped" would be a guess.
      async describeRuntime({ entry }) {
        const sandbox = await existing(entry.containerName)
        const info = await sandbox?.info()
        return {
          running: info?.status === 'running' || info?.status === 'paused',
          actualConfigLabel: entry.image,
          configLabelMatch: entry.image === label && info?.configMatch !== false,
        }
      },
      async removeRuntime({ entry }) {
        const sandbox = await existing(entry.containerName)
        await sandbox?.remove()
      },
    },
    resolveWorkdir: () => workdir,
  }
}

/** The address of the daemon: `sandbox exec` needs it too, so that none is started here. */
function addressOf(config: PluginConfig): string {
  const url = config.url ?? process.env['SANDBOX_SERVER']
  if (url) return url
  throw errorOf('SCHEMA.VALIDATION_FAILED', 'no daemon is named', {
    field: 'url',
    hint: `start "sandbox serve", and set plugins.entries.${pluginId}.config.url or SANDBOX_SERVER to its address`,
  })
}

function tokenOf(config: PluginConfig): string | undefined {
  return config.tokenFile === undefined ? process.env['SANDBOX_TOKEN'] || undefined : readFileSync(config.tokenFile, 'utf8').trim()
}

/** The session of the daemon for a scope of OpenClaw, whose keys may be long and hold any text. */
function sessionOf(scopeKey: string): string {
  return 'openclaw-' + createHash('sha256').update(scopeKey).digest('hex').slice(0, 32)
}

/** Refuses what this backend cannot do, rather than to do something else. */
function refuse({ cfg, readOnlyResourceMounts }: FactoryParams): void {
  const unsupported = (field: string, message: string) => errorOf('SANDBOX.UNSUPPORTED', message, { field })
  if (cfg.workspaceAccess === 'ro')
    throw unsupported(
      'sandbox.workspaceAccess',
      'a sandbox of this backend has a workspace of its own, in which commands write: choose "rw", which copies the files of the agent once, or "none"',
    )
  if (cfg.docker.binds?.length) throw unsupported('sandbox.docker.binds', 'folders of the host are given to sandboxes by the settings of the daemon')
  if (readOnlyResourceMounts?.length) throw unsupported('attachments', 'files for a sub-agent cannot be mounted: put them into the workspace')
}

/** Copies the workspace of the host into a sandbox that has not got it, and the skills each time. */
async function seed(sandbox: Sandbox, { workspaceDir, skillsWorkspaceDir }: FactoryParams): Promise<void> {
  // The file, and not whether the sandbox is new, says that all is there: a copy that
  // was cut off is done again.
  if (!(await sandbox.files.exists(seeded))) {
    if (await isFolder(workspaceDir)) await sandbox.files.upload(workspaceDir, workdir)
    await sandbox.files.write(seeded, '')
  }
  if (skillsWorkspaceDir && (await isFolder(skillsWorkspaceDir))) {
    await sandbox.files.remove(skillsFolder, { recursive: true }).catch(unlessNotFound)
    await sandbox.files.upload(skillsWorkspaceDir, skillsFolder)
  }
}

function unlessNotFound(error: unknown): void {
  if (!isNotFound(error)) throw error
}

async function isFolder(folder: string): Promise<boolean> {
  return statHost(folder).then(
    (s) => s.isDirectory(),
    () => false,
  )
}

/** Names whose values on this machine concern the program `sandbox` itself. */
const ours = /^(PATH|HOME|TMPDIR|USER|LOGNAME|LANG|LC_.*|XDG_.*|SANDBOX_.*|LD_.*|DYLD_.*|GO.*|SSL_.*|(https?|all|no)_proxy)$/i

class Backend {
  constructor(
    readonly sandbox: Sandbox,
    readonly session: string,
    readonly config: PluginConfig,
    readonly label: string,
    readonly params: FactoryParams,
  ) {}

  handle(): BackendHandle {
    return {
      id: pluginId,
      runtimeId: this.sandbox.name,
      runtimeLabel: this.sandbox.name,
      workdir,
      ...(this.params.cfg.docker.env ? { env: this.params.cfg.docker.env } : {}),
      configLabel: this.label,
      configLabelKind: 'Image',
      workdirValidation: 'backend',
      validateWorkdir: (folder) => this.validateWorkdir(folder),
      workdirRoots: [workdir],
      capabilities: { browser: false },
      buildExecSpec: (params) => this.buildExecSpec(params),
      runShellCommand: (params) => this.runShellCommand(params),
      createFsBridge: ({ sandbox }) => new Bridge(this.sandbox, sandbox),
    }
  }

  async validateWorkdir(folder: string): Promise<string | null> {
    if (!inside(workdir, path.posix.normalize(folder))) return null
    try {
      const entry = await this.sandbox.files.stat(folder, { follow: true })
      return entry.type === 'dir' ? path.posix.normalize(folder) : null
    } catch (error) {
      if (isRefusal(error)) return null
      throw error
    }
  }

  /**
   * A command of this machine that runs a line inside. The values of variables are in
   * its environment and not among its arguments, which every user of the machine sees,
   * except for names that the program itself goes by.
   */
  async buildExecSpec({
    command,
    workdir: folder = workdir,
    env,
    usePty,
  }: {
    command: string
    workdir?: string
    env: Record<string, string>
    usePty: boolean
  }): Promise<ExecSpec> {
    const token = tokenOf(this.config)
    const argv = [this.config.binary ?? 'sandbox', 'exec', '--server', addressOf(this.config), '--session', this.session]
    if (this.config.tenant) argv.push('--tenant', this.config.tenant)
    if (this.config.agent) argv.push('--agent', this.config.agent)
    const own: NodeJS.ProcessEnv = {}
    for (const name of ['PATH', 'HOME']) if (process.env[name] !== undefined) own[name] = process.env[name]
    if (token) own['SANDBOX_TOKEN'] = token
    for (const [name, value] of Object.entries(env)) {
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || value.includes('\0')) {
        throw errorOf('SCHEMA.VALIDATION_FAILED', `${JSON.stringify(name)} is no variable that a command can have`, { field: 'env' })
      }
      if (ours.test(name)) {
        argv.push('-e', `${name}=${value}`)
      } else {
        argv.push('-e', name)
        own[name] = value
      }
    }
    argv.push('--interactive', '--workdir', folder, '--', 'sh', '-c')
    // OpenClaw speaks through pipes; a terminal is made inside, by script(1).
    if (usePty) argv.push(terminal, 'sh', operand(command))
    else argv.push(operand(command))
    return { argv, env: own, stdinMode: usePty ? 'pipe-open' : 'pipe-closed' }
  }

  async runShellCommand({ script, args = [], stdin, allowFailure = false, signal }: CommandParams): Promise<CommandResult> {
    signal?.throwIfAborted()
    const result = await this.sandbox.run(['sh', '-c', operand(script), 'openclaw-sandbox', ...args], { stdin, signal })
    signal?.throwIfAborted()
    if (result.truncated)
      throw errorOf('TOOL.EXECUTION_FAILED', 'the output of a command is longer than the daemon keeps: limits.maxOutputBytes of its settings bounds it', {
        field: 'stdout',
      })
    const answer = { stdout: Buffer.from(result.stdoutBytes), stderr: Buffer.from(result.stderrBytes), code: result.exitCode }
    if (answer.code !== 0 && !allowFailure) {
      throw Object.assign(new Error(answer.stderr.toString().trim() || `the command has ended with status ${answer.code}`), answer)
    }
    return answer
  }
}

/** The command of `sh -c`, which takes a dash at its beginning for an option. */
function operand(command: string): string {
  return /^[-+]/.test(command) ? ' ' + command : command
}

/** Runs its argument in a terminal, and says so where the image cannot. */
const terminal = `command -v script >/dev/null || { echo 'sandbox: there is no terminal: the image has no script(1)' >&2; exec sh -c "$1"; }
export SHELL=/bin/sh; exec script -qefc "$1" /dev/null`

/** Whether a path is a folder or below it; both are normalized. */
function inside(folder: string, file: string): boolean {
  return file === folder || file.startsWith(folder === '/' ? '/' : folder + '/')
}

class Bridge implements FsBridge {
  readonly pathMappings: readonly { hostRoot: string; containerRoot: string }[]
  readonly #readOnly: string[]

  constructor(
    private readonly sandbox: Sandbox,
    context: { workspaceDir: string; skillsWorkspaceDir?: string },
  ) {
    const mappings = [{ hostRoot: path.resolve(context.workspaceDir), containerRoot: workdir }]
    if (context.skillsWorkspaceDir) mappings.push({ hostRoot: path.resolve(context.skillsWorkspaceDir), containerRoot: skillsFolder })
    this.pathMappings = mappings
    // OpenClaw keeps the tools of agents from changing the skills that it has handed out.
    const skills = ['skills', '.agents/skills'].filter((folder) => existsSync(path.join(context.workspaceDir, folder)))
    this.#readOnly = [...skills.map((folder) => `${workdir}/${folder}`), skillsFolder]
  }

  resolvePath({ filePath, cwd }: At): { relativePath: string; containerPath: string } {
    const containerPath = this.#inside(filePath) ?? this.#inside(path.posix.resolve((cwd !== undefined && this.#inside(cwd)) || workdir, filePath))
    if (containerPath === undefined) {
      throw errorOf('SANDBOX.PERMISSION_DENY', `${filePath} is not in the workspace of the sandbox, ${workdir}`, { field: 'path' })
    }
    return { containerPath, relativePath: path.posix.relative(workdir, containerPath) }
  }

  async readDirectory(params: At): Promise<{ name: string; isDirectory: boolean }[]> {
    const entries: { name: string; isDirectory: boolean }[] = []
    for await (const { name, type } of this.sandbox.files.entries(this.#path(params), { signal: params.signal }))
      entries.push({ name, isDirectory: type === 'dir' })
    return entries
  }

  async readFile(params: At & { maxBytes?: number }): Promise<Buffer> {
    const { maxBytes, signal } = params
    if (maxBytes !== undefined && !(Number.isSafeInteger(maxBytes) && maxBytes >= 0)) throw new RangeError('maxBytes is no number of bytes')
    const pieces: Uint8Array[] = []
    let length = 0
    try {
      // It is read piece by piece: a file may grow while it is read.
      for await (const piece of this.sandbox.files.readStream(this.#path(params), { signal })) {
        pieces.push(piece)
        length += piece.length
        if (maxBytes !== undefined && length > maxBytes) throw new Error(`${params.filePath} has more than ${maxBytes} bytes`)
      }
    } catch (error) {
      if (isNotFound(error)) throw Object.assign(new Error(`${params.filePath}: no such file`), { code: 'ENOENT', cause: error })
      throw error
    }
    return Buffer.from(join(pieces, length))
  }

  async copyFile({
    sourcePath,
    destinationPath,
    cwd,
    signal,
  }: {
    sourcePath: string
    destinationPath: string
    cwd?: string
    signal?: AbortSignal
  }): Promise<void> {
    const to = this.#writable({ filePath: destinationPath, cwd })
    await this.sandbox.files.write(to, this.sandbox.files.readStream(this.#path({ filePath: sourcePath, cwd }), { signal }), { signal })
  }

  async writeFile(params: At & Content): Promise<void> {
    await this.#write(params, false)
  }

  async createFileExclusive(params: At & Content): Promise<'created' | 'exists'> {
    try {
      await this.#write(params, true)
      return 'created'
    } catch (error) {
      if (error instanceof SandboxError && error.status === 412) return 'exists'
      throw error
    }
  }

  async #write(params: At & Content, exclusive: boolean): Promise<void> {
    const to = this.#writable(params)
    if (params.mkdir === false) await this.sandbox.files.stat(path.posix.dirname(to), { follow: true, signal: params.signal })
    const data = typeof params.data === 'string' ? Buffer.from(params.data, params.encoding ?? 'utf8') : params.data
    await this.sandbox.files.write(to, data, { exclusive, signal: params.signal })
  }

  async mkdirp(params: At): Promise<void> {
    await this.sandbox.files.mkdir(this.#writable(params), { parents: true, signal: params.signal })
  }

  async remove(params: At & { recursive?: boolean; force?: boolean }): Promise<void> {
    try {
      await this.sandbox.files.remove(this.#writable(params, true), { recursive: params.recursive ?? false, signal: params.signal })
    } catch (error) {
      if (params.force === false || !isNotFound(error)) throw error
    }
  }

  async rename({ from, to, cwd, signal }: { from: string; to: string; cwd?: string; signal?: AbortSignal }): Promise<void> {
    await this.sandbox.files.move(this.#writable({ filePath: from, cwd }, true), this.#writable({ filePath: to, cwd }, true), { overwrite: true, signal })
  }

  async stat(params: At): Promise<{ type: 'file' | 'directory' | 'other'; size: number; mtimeMs: number } | null> {
    try {
      const { type, size, modifiedAt } = await this.sandbox.files.stat(this.#path(params), { follow: true, signal: params.signal })
      return { type: type === 'dir' ? 'directory' : type === 'file' ? 'file' : 'other', size, mtimeMs: Date.parse(modifiedAt) }
    } catch (error) {
      if (isNotFound(error)) return null
      throw error
    }
  }

  /** The path inside of an absolute path, which is one inside, or one of the host. */
  #inside(file: string): string | undefined {
    if (!path.isAbsolute(file)) return undefined
    const plain = path.posix.normalize(file).replace(/(.)\/$/, '$1')
    if (inside(workdir, plain)) return plain
    const mapping = this.pathMappings.filter((m) => inside(m.hostRoot, plain)).sort((a, b) => b.hostRoot.length - a.hostRoot.length)[0]
    return mapping && path.posix.join(mapping.containerRoot, path.posix.relative(mapping.hostRoot, plain))
  }

  #path(params: At): string {
    return this.resolvePath(params).containerPath
  }

  /** The path of something that is changed, with all that is below it where `whole`. */
  #writable(params: At, whole = false): string {
    const file = this.#path(params)
    const root = this.#readOnly.find((root) => inside(root, file) || (whole && inside(file, root)))
    if (root) {
      throw errorOf('SANDBOX.PERMISSION_DENY', `${file}: skills in ${root} are read-only`, { field: 'path' })
    }
    return file
  }
}
