import { createReadStream, createWriteStream } from 'node:fs'
import { lstat, rename, rm, stat as statLocal } from 'node:fs/promises'
import * as path from 'node:path'
import { randomBytes } from 'node:crypto'
import { inside, one, type Api, type Schemas } from './api.js'
import { errorOf, invalid, NotFoundError } from './errors.js'
import { decode } from './result.js'
import { pack, unpack } from './tar.js'
import { abandonable, wellFormed, type Bytes, type CallOptions, type Query, type Request } from './transport.js'

/** What there is to know of a file, folder or link. */
export type FileInfo = Schemas['File']
export type WrittenFile = Schemas['WrittenFile']

/** One change, or what a watch has to say. The type of a change is that of the file. */
export type WatchEvent =
  | ({ event: 'ready' } & Schemas['WatchReady'])
  | ({ event: 'change' } & Schemas['Change'])
  | ({ event: 'note' } & Schemas['WatchNote'])
  | ({ event: 'overflow' } & Schemas['WatchNote'])

/** What upload and download have copied. */
export interface Copied {
  files: number
  folders: number
  links: number
  bytes: number
  /** What was left out, and why. */
  left: readonly Schemas['LeftOut'][]
}

/** How a file is written. */
export interface WriteOptions extends CallOptions {
  /** It must not be there. */
  exclusive?: boolean | undefined
  /** It must be there with this entity tag. */
  etag?: string | undefined
  /** Permissions of a new file; 0o644 without. */
  mode?: number | undefined
}

/** A part of a file. */
export interface ReadOptions extends CallOptions {
  /** The first byte. */
  offset?: number | undefined
  /** How many bytes; to the end without. */
  length?: number | undefined
}

/**
 * The files of a sandbox. Relative paths are in the workspace. Names of files come
 * from inside and may hold anything.
 */
export class Files {
  readonly #api: Api
  readonly #name: string

  /** @internal */
  constructor(api: Api, name: string) {
    this.#api = api
    this.#name = name
  }

  #at(op: string, file: string): string {
    return one(this.#name, `/files/${inside(op, file)}`)
  }

  #reading(op: string, file: string, o: ReadOptions): Request {
    const request: Request = { op, method: 'GET', path: this.#at(op, file), again: true, signal: o.signal }
    if (o.offset === undefined && o.length === undefined) return request
    const offset = whole(op, 'offset', o.offset ?? 0)
    const length = o.length === undefined ? undefined : whole(op, 'length', o.length)
    return { ...request, headers: { Range: `bytes=${offset}-${length === undefined ? '' : offset + length - 1}` } }
  }

  /** Reads a file. */
  async read(file: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const op = 'read file'
    if (options.length === 0) return new Uint8Array(0)
    const request = this.#reading(op, file, options)
    const { body, status } = await this.#api.bytes(request)
    if (request.headers !== undefined && status !== 206) throw otherPart(op)
    // A small body shares its memory with others.
    return body.buffer.byteLength === body.byteLength ? new Uint8Array(body.buffer) : new Uint8Array(body)
  }

  /** Reads a file as text of UTF-8; other bytes are U+FFFD in it. */
  async readText(file: string, options: ReadOptions = {}): Promise<string> {
    return decode(await this.read(file, options))
  }

  /** Reads a file piece by piece. One that was cut off is an error. */
  readStream(file: string, options: ReadOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const op = 'read file'
    const { transport } = this.#api
    const api = this.#api
    if (options.length === 0) return abandonable(options.signal, async function* () {})
    const request = this.#reading(op, file, options)
    return abandonable(options.signal, async function* (signal) {
      const { body, status } = await api.send({ ...request, signal })
      if (request.headers !== undefined && status !== 206) {
        body.destroy()
        throw otherPart(op)
      }
      yield* transport.read({ op, signal }, body)
    })
  }

  /** Replaces or makes a file in one step; missing folders are made. */
  async write(file: string, data: Bytes, options: WriteOptions = {}): Promise<WrittenFile> {
    const op = 'write file'
    const headers: Record<string, string> = { 'Content-Type': 'application/octet-stream' }
    if (options.exclusive === true) headers['If-None-Match'] = '*'
    if (options.etag !== undefined) headers['If-Match'] = options.etag
    return this.#api.call<WrittenFile>({
      op,
      method: 'PUT',
      path: this.#at(op, file),
      query: { mode: octal(op, options.mode) },
      headers,
      body: data,
      signal: options.signal,
    })
  }

  /** Lists a folder in order of names. */
  async list(folder = '', options: CallOptions = {}): Promise<FileInfo[]> {
    const all: FileInfo[] = []
    for await (const entry of this.entries(folder, options)) all.push(entry)
    return all
  }

  /** Lists a folder, page by page. */
  async *entries(folder = '', options: CallOptions = {}): AsyncGenerator<FileInfo, void, undefined> {
    const op = 'list files'
    let cursor: string | undefined
    for (;;) {
      const query: Query = { list: true, cursor }
      const page = await this.#api.call<Schemas['FileList']>({ op, method: 'GET', path: this.#at(op, folder), query, again: true, signal: options.signal })
      yield* page.items
      const next = page.next ?? ''
      if (next === '') return
      if (next === cursor || page.items.length === 0) throw errorOf('PROVIDER.UNAVAILABLE', 'the daemon answers with pages without end', { op })
      cursor = next
    }
  }

  /** Tells of one entry; a link is followed only where that is asked for. */
  async stat(file: string, options: CallOptions & { follow?: boolean | undefined } = {}): Promise<FileInfo> {
    const op = 'stat file'
    const query: Query = { stat: true, follow: options.follow === true ? true : undefined }
    const list = await this.#api.call<Schemas['FileList']>({ op, method: 'GET', path: this.#at(op, file), query, again: true, signal: options.signal })
    const [entry] = list.items
    if (entry === undefined || list.items.length !== 1) throw errorOf('PROVIDER.UNAVAILABLE', 'the daemon has not sent the one entry', { op })
    return entry
  }

  /** Reports whether something is there; a link is, whatever it leads to. */
  async exists(file: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.stat(file, options)
      return true
    } catch (error) {
      if (error instanceof NotFoundError) return false
      throw error
    }
  }

  /** Removes a file, a link or a folder, which has to be empty unless recursive is set. */
  async remove(file: string, options: CallOptions & { recursive?: boolean | undefined } = {}): Promise<void> {
    const op = 'remove file'
    const query: Query = { recursive: options.recursive === true }
    await this.#api.call({ op, method: 'DELETE', path: this.#at(op, file), query, signal: options.signal })
  }

  /** Renames a file or folder. */
  async move(from: string, to: string, options: CallOptions & { overwrite?: boolean | undefined } = {}): Promise<FileInfo> {
    const json: Schemas['MoveFile'] = { from, to }
    if (options.overwrite !== undefined) json.overwrite = options.overwrite
    return this.#api.call({ op: 'move file', method: 'POST', path: one(this.#name, '/files:move'), json, signal: options.signal })
  }

  /** Makes a folder, with parents also those above it. */
  async mkdir(folder: string, options: CallOptions & { parents?: boolean | undefined; mode?: number | undefined } = {}): Promise<FileInfo> {
    const op = 'make folder'
    const json: Schemas['MakeFolder'] = { path: folder }
    if (options.parents !== undefined) json.parents = options.parents
    const mode = octal(op, options.mode)
    if (mode !== undefined) json.mode = mode
    return this.#api.call({ op, method: 'POST', path: one(this.#name, '/files:mkdir'), json, signal: options.signal })
  }

  /** Makes a symbolic link at path that leads to target. */
  async symlink(target: string, file: string, options: CallOptions = {}): Promise<FileInfo> {
    const json: Schemas['MakeLink'] = { path: file, target }
    return this.#api.call({ op: 'make link', method: 'POST', path: one(this.#name, '/files:symlink'), json, signal: options.signal })
  }

  /** Finds files by their names. */
  async glob(pattern: string, options: CallOptions & { path?: string | undefined; limit?: number | undefined } = {}): Promise<Schemas['GlobResult']> {
    const json: Schemas['Glob'] = { pattern }
    if (options.path !== undefined) json.path = options.path
    if (options.limit !== undefined) json.limit = options.limit
    return this.#api.call({ op: 'glob', method: 'POST', path: one(this.#name, '/files:glob'), json, signal: options.signal })
  }

  /**
   * Reports what changes in a folder, and in those below it unless recursive is false.
   * The first event is "ready". The sandbox is in use until the loop is left. A watch
   * has no end of its own.
   */
  watch(folder = '', options: CallOptions & { recursive?: boolean | undefined } = {}): AsyncGenerator<WatchEvent, void, undefined> {
    const op = 'watch files'
    const api = this.#api
    const query: Query = { path: folder === '' ? undefined : folder, recursive: options.recursive === false ? false : undefined }
    const request: Request = { op, method: 'GET', path: one(this.#name, '/watch'), query, again: true }
    return abandonable(options.signal, async function* (signal) {
      for await (const event of api.events({ ...request, signal })) {
        if (event.name === 'ready' || event.name === 'change' || event.name === 'note' || event.name === 'overflow') {
          yield { event: event.name, ...(event.data as object) } as WatchEvent
        }
      }
    })
  }

  /** Returns what is at path as a tar archive. Its names, links and contents are whatever code inside has made them. */
  readArchive(file = '', options: CallOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const op = 'pack archive'
    const api = this.#api
    const request: Request = { op, method: 'GET', path: one(this.#name, '/archive'), query: { path: file === '' ? '.' : file }, again: true }
    wellFormed(op, 'path', file)
    return abandonable(options.signal, async function* (signal) {
      const { body } = await api.send({ ...request, signal })
      yield* api.transport.read({ op, signal }, body)
    })
  }

  /** Makes what a tar archive holds in a folder, which is made when it is missing. */
  async writeArchive(folder: string, tar: Bytes, options: CallOptions = {}): Promise<Schemas['UnpackedArchive']> {
    return this.#api.call({
      op: 'unpack archive',
      method: 'PUT',
      path: one(this.#name, '/archive'),
      query: { path: folder === '' ? '.' : folder },
      headers: { 'Content-Type': 'application/x-tar' },
      body: tar,
      signal: options.signal,
    })
  }

  /**
   * Copies a local file to the file path inside, or what is in a local folder into the
   * folder path inside. Of a folder links are kept as links; pipes, sockets and devices
   * are left out.
   */
  async upload(local: string, file: string, options: CallOptions = {}): Promise<Copied> {
    const op = 'upload'
    let info
    try {
      info = await statLocal(local)
    } catch (cause) {
      throw localError(op, local, cause)
    }
    if (info.isDirectory()) {
      const left: Schemas['LeftOut'][] = []
      const done = await this.writeArchive(file, pack(local, left), options)
      return { files: done.files, folders: done.folders, links: done.links, bytes: done.bytes, left: [...left, ...done.left] }
    }
    if (!info.isFile()) throw invalid(op, 'local', 'it is neither a file nor a folder')
    const done = await this.write(file, createReadStream(local), { mode: info.mode & 0o777, signal: options.signal })
    return { files: 1, folders: 0, links: 0, bytes: done.size, left: [] }
  }

  /**
   * Copies a file inside to the local file, or what is in a folder inside into the local
   * folder, which is made when it is missing. Nothing is written outside of that folder:
   * links that lead out are left out, and no link is followed.
   */
  async download(file: string, local: string, options: CallOptions = {}): Promise<Copied> {
    const op = 'download'
    const info = await this.stat(file, { follow: true, signal: options.signal })
    if (info.type === 'dir') return unpack(this.readArchive(file, options), local)
    if (info.type !== 'file') throw invalid(op, 'path', 'it is neither a file nor a folder')
    const there = await lstat(local).catch(() => undefined)
    if (there?.isDirectory() === true) throw invalid(op, 'local', 'it is a folder', `write ${path.join(local, info.name)}`)
    const beside = path.join(path.dirname(local), `.${path.basename(local)}.${randomBytes(6).toString('hex')}`)
    let bytes = 0
    try {
      const out = createWriteStream(beside, { flags: 'wx', mode: Number.parseInt(info.mode, 8) & 0o777 })
      const failed = new Promise<never>((_, reject) => out.once('error', reject))
      failed.catch(() => undefined)
      try {
        for await (const piece of this.readStream(file, options)) {
          bytes += piece.byteLength
          if (!out.write(piece)) await Promise.race([failed, new Promise<void>((resolve) => out.once('drain', () => resolve()))])
        }
        await Promise.race([failed, new Promise<void>((resolve) => out.end(() => resolve()))])
      } finally {
        out.destroy()
      }
      await rename(beside, local)
    } catch (cause) {
      await rm(beside, { force: true })
      throw localError(op, local, cause)
    }
    return { files: 1, folders: 0, links: 0, bytes, left: [] }
  }
}

/** The error of something of this machine; other errors stay what they are. */
function localError(op: string, local: string, cause: unknown): unknown {
  const code = (cause as NodeJS.ErrnoException | undefined)?.code
  if (typeof code !== 'string' || !/^E[A-Z0-9]+$/.test(code) || !('syscall' in (cause as object))) return cause
  const kind = code === 'ENOENT' ? 'SANDBOX.NOT_FOUND' : code === 'EEXIST' ? 'SANDBOX.BUSY' : code === 'EACCES' || code === 'EPERM' ? 'SANDBOX.PERMISSION_DENY' : 'TOOL.EXECUTION_FAILED'
  return errorOf(kind, (cause as Error).message, { op, field: 'local', resource: local, reason: code, cause })
}

function otherPart(op: string): Error {
  return errorOf('PROVIDER.UNAVAILABLE', 'the daemon answers with another part than was asked for', { op })
}

function whole(op: string, field: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < 0) throw invalid(op, field, 'it is no whole number from 0 on')
  return value
}

function octal(op: string, mode: number | undefined): string | undefined {
  if (mode === undefined) return undefined
  if (!Number.isInteger(mode) || mode < 0 || mode > 0o777) throw invalid(op, 'mode', 'it is no number from 0 to 0o777')
  return mode.toString(8)
}
