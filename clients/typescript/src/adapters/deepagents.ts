/**
 * A backend of LangChain's deepagents that is a sandbox.
 *
 * Files are read, written and searched through the files and tools of the daemon,
 * without a command inside; only `execute` runs one. The types are those of
 * SandboxBackendProtocolV2, written out here so that this module needs no package of
 * the framework.
 */
import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { errorOf, SandboxError } from '../errors.js'
import { Sandbox, type SandboxOptions } from '../index.js'
import { join, refusal, unlessRefused } from './common.js'

/** An entry of a folder. */
export interface FileInfo {
  path: string
  is_dir?: boolean
  size?: number
  modified_at?: string
}

export interface LsResult {
  error?: string
  files?: FileInfo[]
}
export interface GlobResult {
  error?: string
  files?: FileInfo[]
  truncated?: boolean
}
export interface GrepMatch {
  path: string
  line: number
  text: string
}
export interface GrepResult {
  error?: string
  matches?: GrepMatch[]
  truncated?: boolean
}
export interface ReadResult {
  error?: string
  content?: string | Uint8Array
  mimeType?: string
  totalLines?: number
  startLine?: number
  endLine?: number
  nextOffset?: number
}
export interface ReadRawResult {
  error?: string
  data?: { content: string | Uint8Array; mimeType: string; created_at: string; modified_at: string }
}
export interface WriteResult {
  error?: string
  path?: string
  filesUpdate?: null
}
export interface EditResult {
  error?: string
  path?: string
  filesUpdate?: null
  occurrences?: number
}
export interface DeleteResult {
  error?: string
  path?: string
  filesUpdate?: null
}
export interface ExecuteResponse {
  output: string
  exitCode: number | null
  truncated: boolean
}
export type FileOperationError = 'file_not_found' | 'permission_denied' | 'is_directory' | 'invalid_path'
export interface FileUploadResponse {
  path: string
  error: FileOperationError | null
}
export interface FileDownloadResponse {
  path: string
  content: Uint8Array | null
  error: FileOperationError | null
}

/** How a backend runs commands and reads files. */
export interface BackendOptions {
  /** Seconds after which a command is ended; without it the daemon's own bound holds. */
  timeout?: number
  /** Most bytes of output that `execute` returns; 100,000 without it. */
  maxOutputBytes?: number
  /** Most bytes of a file that is read whole, to be shown or edited; 10 MiB without it. */
  maxFileBytes?: number
}

/** What the tools of the framework expect in the place of an empty file. */
const emptyFile = 'System reminder: File exists but has empty contents'

/** The most matches, and paths, that are asked for where no bound is given. */
const most = 10_000

/**
 * A sandbox as the backend of `createDeepAgent`.
 *
 * A method returns what the sandbox refuses as `error`, for the model to read. It
 * throws the SandboxError where the daemon or the sandbox itself cannot work, which no
 * model can mend.
 */
export class SandboxBackend {
  /** The name of the sandbox. */
  readonly id: string
  readonly #owned: boolean
  #root?: Promise<string>

  /** Makes a backend of a sandbox, which the caller closes. */
  constructor(
    readonly sandbox: Sandbox,
    readonly options: BackendOptions = {},
    owned = false,
  ) {
    this.id = sandbox.name
    this.#owned = owned
  }

  /** Opens the sandbox of a session, or one of its own, as `Sandbox.open` does. */
  static async open(session?: string, options: SandboxOptions & { backend?: BackendOptions } = {}): Promise<SandboxBackend> {
    const { backend, ...rest } = options
    return new SandboxBackend(await Sandbox.open(session, rest), backend, true)
  }

  /** Closes the sandbox that `open` has opened; one of its own is removed. */
  async close(): Promise<void> {
    if (this.#owned) await this.sandbox.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /**
   * Runs a line of a shell. The output is that of both streams, in the order in which
   * the daemon has received it. A command that ran out of time has exit code 124; one that rules
   * refuse has none, and `output` says why.
   */
  async execute(command: string): Promise<ExecuteResponse> {
    const limit = this.options.maxOutputBytes ?? 100_000
    const kept: Uint8Array[] = []
    let length = 0
    let truncated = false
    let exitCode: number | null = null
    let note = ''
    try {
      for await (const event of this.sandbox.stream(command, { timeout: this.options.timeout })) {
        if (event.type === 'exit') {
          const { result } = event
          exitCode = event.exitCode
          truncated ||= result.truncated
          if (result.timedOut) {
            exitCode = 124
            note = '\nsandbox: the command ran out of time and was ended'
          } else if (result.blockedReason) {
            note = `\nsandbox: ${result.blockedReason}`
          }
        } else if (event.type === 'dropped') {
          truncated = true
        } else if (event.type === 'again') {
          kept.length = length = 0
          truncated = false
        } else if (length < limit) {
          const data = event.data.subarray(0, limit - length)
          truncated ||= data.length < event.data.length
          kept.push(data)
          length += data.length
        } else {
          truncated ||= event.data.length > 0
        }
      }
    } catch (error) {
      return { output: refusal(error), exitCode: null, truncated: false }
    }
    return { output: new TextDecoder().decode(join(kept, length)) + note, exitCode, truncated }
  }

  /** Lists a folder. The root is that of what can be reached: the workspace. */
  async ls(path: string): Promise<LsResult> {
    try {
      const files: FileInfo[] = []
      for await (const entry of this.sandbox.files.entries(await this.#absolute(path))) {
        let { type, size, modifiedAt } = entry
        if (type === 'symlink') {
          const target = await this.sandbox.files.stat(entry.path, { follow: true }).catch(unlessRefused)
          if (target) ({ type, size, modifiedAt } = target)
        }
        const folder = type === 'dir'
        files.push({ path: folder ? entry.path + '/' : entry.path, is_dir: folder, size: folder ? 0 : size, modified_at: modifiedAt })
      }
      files.sort((a, b) => (a.path < b.path ? -1 : 1))
      return { files }
    } catch (error) {
      const why = refusal(error)
      return { error: (error as SandboxError).status === 422 ? `${why}: '${path}' has to be a folder` : why }
    }
  }

  /**
   * Reads lines of a text file, `limit` of them behind the first `offset`, or the whole
   * of a file whose name says that it is a picture, sound, film or document.
   */
  async read(filePath: string, offset = 0, limit = 500): Promise<ReadResult> {
    const mime = mimeType(filePath)
    try {
      const data = await this.#whole(filePath)
      if (!isText(mime)) return { content: data, mimeType: mime }
      const text = textOf(data)
      if (text === null) return { error: notText(filePath) }
      if (text === '') return { content: emptyFile, mimeType: mime }
      const from = Number.isFinite(offset) ? Math.max(0, Math.floor(offset)) : 0
      const count = Number.isFinite(limit) ? Math.max(0, Math.floor(limit)) : 0
      if (count === 0) return { content: '', mimeType: mime }
      const lines = text.split('\n')
      const total = lines[lines.length - 1] === '' ? lines.length - 1 : lines.length
      if (from >= total) return { error: `Line offset ${from} is behind the last of the ${total} lines of '${filePath}'` }
      const end = Math.min(from + count, total)
      // The last line keeps its newline, so that a whole file is what was written.
      const content = lines.slice(from, end === total ? lines.length : end).join('\n')
      return { content, mimeType: mime, totalLines: total, startLine: from + 1, endLine: end, ...(end < total ? { nextOffset: end } : {}) }
    } catch (error) {
      return { error: refusal(error) }
    }
  }

  /** Reads a whole file: a text as a string, and the rest as bytes. */
  async readRaw(filePath: string): Promise<ReadRawResult> {
    const mime = mimeType(filePath)
    try {
      const [stat, data] = [await this.sandbox.files.stat(await this.#absolute(filePath), { follow: true }), await this.#whole(filePath)]
      const text = isText(mime) ? textOf(data) : null
      if (isText(mime) && text === null) return { error: notText(filePath) }
      return { data: { content: text ?? data, mimeType: mime, created_at: stat.modifiedAt, modified_at: stat.modifiedAt } }
    } catch (error) {
      return { error: refusal(error) }
    }
  }

  /**
   * Writes a file whole, with the folders above it. The content of a file whose name
   * says that it is no text is base64, as the framework has it.
   */
  async write(filePath: string, content: string): Promise<WriteResult> {
    try {
      let data: Uint8Array = new TextEncoder().encode(content)
      if (!isText(mimeType(filePath))) {
        if (!/^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(content))
          return { error: `The content of '${filePath}' has to be base64, because its name says that it is no text` }
        data = Buffer.from(content, 'base64')
      }
      await this.sandbox.files.write(await this.#absolute(filePath), data)
      return { path: filePath, filesUpdate: null }
    } catch (error) {
      return { error: refusal(error) }
    }
  }

  /**
   * Replaces a text in a file: the one place where it stands, or with `replaceAll`
   * every one. A file that is changed meanwhile is read again; it is never overwritten.
   */
  async edit(filePath: string, oldString: string, newString: string, replaceAll = false): Promise<EditResult> {
    try {
      for (let attempt = 0; ; attempt++) {
        const data = await this.#whole(filePath)
        const text = textOf(data)
        if (text === null) return { error: notText(filePath) }
        if (oldString === '' && text !== '') return { error: `The text to replace is empty, and '${filePath}' is not: give a text that stands in it` }
        const occurrences = oldString === '' ? (newString === '' ? 0 : 1) : text.split(oldString).length - 1
        if (oldString !== '' && occurrences === 0) return { error: `String not found in file '${filePath}'` }
        if (occurrences > 1 && !replaceAll)
          return { error: `The string stands ${occurrences} times in '${filePath}': give more of what is around it, or set replace_all` }
        const next = oldString === '' ? newString : text.split(oldString).join(newString)
        if (next === text) return { path: filePath, filesUpdate: null, occurrences }
        try {
          // The tag of a file is its SHA-256.
          await this.sandbox.files.write(await this.#absolute(filePath), next, { etag: `"sha256-${createHash('sha256').update(data).digest('hex')}"` })
          return { path: filePath, filesUpdate: null, occurrences }
        } catch (error) {
          if (!(error instanceof SandboxError) || error.status !== 412 || attempt >= 4) throw error
        }
      }
    } catch (error) {
      return { error: refusal(error) }
    }
  }

  /**
   * Finds the lines of text files that hold a text, which is no pattern. `path` is a
   * file or a folder, the workspace without it; `glob` chooses files by their names.
   */
  async grep(pattern: string, path: string | null = null, glob: string | null = null, maxCount: number | null = null): Promise<GrepResult> {
    if (pattern.includes('\n')) return { error: 'The text to find has several lines: lines are searched one by one, so give a part of one' }
    try {
      const answer = await this.sandbox.tools.call('grep', {
        pattern,
        literal: true,
        path: await this.#absolute(path ?? '/'),
        ...(glob ? { glob } : {}),
        limit: Math.max(1, Math.min(maxCount ?? most, most)),
      })
      const {
        lines = [],
        page,
        search,
      } = answer.data as unknown as { lines?: (GrepMatch & { hit: boolean })[]; page: { more: boolean }; search: { partial?: number; stopped?: string } }
      const matches = lines.filter((l) => l.hit).map(({ path, line, text }) => ({ path, line, text }))
      return { matches, ...(page.more || search.partial || search.stopped ? { truncated: true } : {}) }
    } catch (error) {
      return { error: refusal(error) }
    }
  }

  /** Finds files by a pattern, with `**` for any number of folders, below `path` or the workspace. */
  async glob(pattern: string, path?: string): Promise<GlobResult> {
    try {
      const root = await this.#absolute(path ?? '/')
      const inside = pattern.startsWith(root + '/') ? pattern.slice(root.length + 1) : pattern.replace(/^\/+/, '')
      const found = await this.sandbox.files.glob(inside, { path: root, limit: most })
      return { files: found.paths.map((path) => ({ path })), ...(found.more ? { truncated: true } : {}) }
    } catch (error) {
      return { error: refusal(error) }
    }
  }

  /** Removes a file, or a folder with all that is in it. A link is removed, not what it leads to. */
  async delete(filePath: string): Promise<DeleteResult> {
    try {
      await this.sandbox.files.remove(await this.#absolute(filePath), { recursive: true })
      return { path: filePath, filesUpdate: null }
    } catch (error) {
      return { error: refusal(error) }
    }
  }

  /** Writes files, with the folders above them, and says of each whether it was written. */
  async uploadFiles(files: Array<[string, Uint8Array]>): Promise<FileUploadResponse[]> {
    const answers: FileUploadResponse[] = []
    for (const [path, content] of files) {
      try {
        await this.sandbox.files.write(await this.#absolute(path), content)
        answers.push({ path, error: null })
      } catch (error) {
        answers.push({ path, error: await this.#fault(path, error) })
      }
    }
    return answers
  }

  /** Reads files, and says of each whether it was read. */
  async downloadFiles(paths: string[]): Promise<FileDownloadResponse[]> {
    const answers: FileDownloadResponse[] = []
    for (const path of paths) {
      try {
        answers.push({ path, content: await this.sandbox.files.read(await this.#absolute(path)), error: null })
      } catch (error) {
        answers.push({ path, content: null, error: await this.#fault(path, error) })
      }
    }
    return answers
  }

  /** The absolute path of a folder or file. The root is the workspace: the framework takes it where the model names none. */
  async #absolute(path: string): Promise<string> {
    const root = await (this.#root ??= this.sandbox.files.stat('.').then((entry) => entry.path))
    return path === '/' || path === '' ? root : posix.resolve(root, path)
  }

  /** Reads a file that is not too large to be held whole. */
  async #whole(path: string): Promise<Uint8Array> {
    const limit = this.options.maxFileBytes ?? 10 << 20
    const file = await this.#absolute(path)
    const { size, type } = await this.sandbox.files.stat(file, { follow: true })
    if (type === 'file' && size > limit) {
      throw errorOf(
        'SCHEMA.VALIDATION_FAILED',
        `'${path}' has ${size} bytes, more than the ${limit} that are read at once: read a part of it with a command, such as "sed -n 1,100p"`,
        { status: 413, field: 'path' },
      )
    }
    return this.sandbox.files.read(file)
  }

  /** Translates what the sandbox refuses into the framework's words for it. */
  async #fault(path: string, error: unknown): Promise<FileOperationError> {
    refusal(error)
    const stat = await this.sandbox.files.stat(await this.#absolute(path), { follow: true }).catch(unlessRefused)
    if (stat?.type === 'dir') return 'is_directory'
    const { code, status } = error as SandboxError
    if (code === 'SANDBOX.NOT_FOUND') return 'file_not_found'
    return status === 422 ? 'invalid_path' : 'permission_denied'
  }
}

/** What the names of files say of their content, where that is no text. */
const media: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
  mp3: 'audio/mpeg',
  wav: 'audio/wav',
  aiff: 'audio/aiff',
  aac: 'audio/aac',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  mp4: 'video/mp4',
  webm: 'video/webm',
  mpeg: 'video/mpeg',
  mpg: 'video/mpeg',
  mov: 'video/quicktime',
  avi: 'video/x-msvideo',
  flv: 'video/x-flv',
  wmv: 'video/x-ms-wmv',
  '3gpp': 'video/3gpp',
  pdf: 'application/pdf',
  ppt: 'application/vnd.ms-powerpoint',
  pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
}

/** The media type of a file by its name: the framework reads all that it does not know as text. */
function mimeType(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const dot = name.lastIndexOf('.')
  return (dot > 0 && media[name.slice(dot + 1).toLowerCase()]) || 'text/plain'
}

function isText(mime: string): boolean {
  return mime === 'text/plain'
}

/** The text that bytes are, or null: what is no UTF-8 could not be written back as it was. */
function textOf(data: Uint8Array): string | null {
  if (data.includes(0)) return null
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data)
  } catch {
    return null
  }
}

function notText(path: string): string {
  return `'${path}' is no text in UTF-8: read it with a command, such as "file", "xxd" or "iconv"`
}
