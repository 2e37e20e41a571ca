import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { lstat, mkdir, open, readdir, readlink, realpath, rename, rm, symlink, unlink, utimes } from 'node:fs/promises'
import * as path from 'node:path'
import type { Schemas } from './api.js'
import { errorOf } from './errors.js'
import type { Copied } from './files.js'

const block = 512
/** The most bytes of a header with long names. */
const maxHeader = 1 << 20

/** One header; numbers are octal, and a size that has no room is in a header before. */
function header(name: string, type: string, size: number, mode: number, mtime: number, link: string): Buffer {
  const b = Buffer.alloc(block)
  const number = (value: number, at: number, length: number): void => {
    const text = Math.max(0, Math.trunc(value)).toString(8)
    b.write((text.length < length ? text : '0').padStart(length - 1, '0'), at, 'latin1')
  }
  b.write(name, 0, 100, 'latin1')
  number(mode, 100, 8)
  number(0, 108, 8)
  number(0, 116, 8)
  number(size, 124, 12)
  number(mtime, 136, 12)
  b.fill(' ', 148, 156)
  b.write(type, 156, 'latin1')
  b.write(link, 157, 100, 'latin1')
  b.write('ustar\x0000', 257, 'latin1')
  let sum = 0
  for (const byte of b) sum += byte
  b.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return b
}

const plain = (text: string): boolean => text.length <= 100 && /^[\x20-\x7e]*$/.test(text)

/** The headers of an entry: what the plain one cannot say is in one before. */
function* headers(name: string, type: string, size: number, mode: number, mtime: number, link = ''): Generator<Buffer> {
  const records: [string, string][] = []
  if (!plain(name)) records.push(['path', name])
  if (!plain(link)) records.push(['linkpath', link])
  if (size >= 8 ** 11) records.push(['size', String(size)])
  if (records.length > 0) {
    const body = Buffer.concat(
      records.map(([key, value]) => {
        const rest = Buffer.from(` ${key}=${value}\n`)
        let length = rest.length + 1
        while (String(length).length + rest.length !== length) length++
        return Buffer.concat([Buffer.from(String(length)), rest])
      }),
    )
    yield header('PaxHeaders/x', 'x', body.length, 0o644, 0, '')
    yield body
    yield padding(body.length)
  }
  yield header(plain(name) ? name : 'x', type, size, mode, mtime, plain(link) ? link : 'x')
}

function padding(size: number): Buffer {
  return Buffer.alloc((block - (size % block)) % block)
}

/** Packs what is in a local folder; what cannot be packed is added to left. @internal */
export async function* pack(folder: string, left: Schemas['LeftOut'][]): AsyncGenerator<Uint8Array, void, undefined> {
  yield* below(folder, '', left)
  yield Buffer.alloc(2 * block)
}

async function* below(folder: string, prefix: string, left: Schemas['LeftOut'][]): AsyncGenerator<Uint8Array, void, undefined> {
  const names = (await readdir(folder)).sort()
  for (const name of names) {
    const local = path.join(folder, name)
    const inside = prefix + name
    let info
    try {
      info = await lstat(local)
    } catch (cause) {
      left.push({ path: inside, reason: `it cannot be read: ${(cause as Error).message}` })
      continue
    }
    const mtime = info.mtimeMs / 1000
    const mode = info.mode & 0o777
    if (info.isDirectory()) {
      yield* headers(`${inside}/`, '5', 0, mode, mtime)
      yield* below(local, `${inside}/`, left)
    } else if (info.isSymbolicLink()) {
      yield* headers(inside, '2', 0, 0o777, mtime, await readlink(local))
    } else if (info.isFile()) {
      // The size is that of the open file: another one would break what comes after it.
      const file = await open(local, constants.O_RDONLY | constants.O_NONBLOCK)
      try {
        const { size } = await file.stat()
        yield* headers(inside, '0', size, mode, mtime)
        for (let at = 0; at < size; ) {
          const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(64 << 10, size - at)), 0, undefined, at)
          if (bytesRead === 0) {
            throw errorOf('TOOL.EXECUTION_FAILED', 'a file became shorter while it was read', { op: 'upload', field: 'local', resource: local })
          }
          at += bytesRead
          yield buffer.subarray(0, bytesRead)
        }
        yield padding(size)
      } finally {
        await file.close()
      }
    } else left.push({ path: inside, reason: 'it is a pipe, a socket or a device' })
  }
}

/** Reads exactly so many bytes of a stream at a time. */
class Reader {
  #left: Buffer = Buffer.alloc(0)
  readonly #source: AsyncIterator<Uint8Array>

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  /** At most so many bytes, at least one; nothing at the end. */
  async some(most: number): Promise<Buffer> {
    while (this.#left.length === 0) {
      const next = await this.#source.next()
      if (next.done === true) return this.#left
      this.#left = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength)
    }
    const piece = this.#left.subarray(0, most)
    this.#left = this.#left.subarray(piece.length)
    return piece
  }

  async exactly(size: number): Promise<Buffer> {
    const parts: Buffer[] = []
    for (let left = size; left > 0; ) {
      const piece = await this.some(left)
      if (piece.length === 0) throw broken('it ends too early')
      parts.push(piece)
      left -= piece.length
    }
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
  }

  async skip(size: number): Promise<void> {
    for (let left = size; left > 0; ) {
      const piece = await this.some(left)
      if (piece.length === 0) throw broken('it ends too early')
      left -= piece.length
    }
  }

  async close(): Promise<void> {
    await this.#source.return?.()
  }
}

function broken(why: string): Error {
  return errorOf('PROVIDER.UNAVAILABLE', `the archive cannot be read: ${why}`, { op: 'download' })
}

interface Entry {
  name: string
  link: string
  type: string
  size: number
  mode: number
  mtime: number
}

function numberAt(b: Buffer, at: number, length: number): number {
  if (((b[at] as number) & 0x80) !== 0) {
    let value = (b[at] as number) & 0x7f
    for (let i = 1; i < length; i++) value = value * 256 + (b[at + i] as number)
    return value
  }
  const text = b.toString('latin1', at, at + length).replace(/[\0 ]+$/, '').trim()
  if (!/^[0-7]*$/.test(text)) throw broken('a number in it is none')
  return text === '' ? 0 : Number.parseInt(text, 8)
}

function textAt(b: Buffer, at: number, length: number): string {
  const end = b.indexOf(0, at)
  return b.toString('utf8', at, end < 0 || end > at + length ? at + length : end)
}

async function* entries(from: Reader): AsyncGenerator<Entry, void, undefined> {
  let more: Record<string, string> = {}
  for (;;) {
    const b = await from.exactly(block)
    if (b.every((byte) => byte === 0)) {
      while ((await from.some(64 << 10)).length > 0); // the connection is used again
      return
    }
    let sum = 8 * 32
    for (let i = 0; i < block; i++) if (i < 148 || i >= 156) sum += b[i] as number
    if (sum !== numberAt(b, 148, 8)) throw broken('the sum of a header is wrong')
    const type = b[156] === 0 ? '0' : String.fromCharCode(b[156] as number)
    const prefix = textAt(b, 257, 5) === 'ustar' && b[262] === 0 ? textAt(b, 345, 155) : ''
    const name = textAt(b, 0, 100)
    const size = numberAt(b, 124, 12)
    if (type === 'x' || type === 'g' || type === 'L' || type === 'K') {
      if (size > maxHeader) throw broken('a header has no end')
      const body = await from.exactly(size)
      await from.skip(padding(size).length)
      if (type === 'x') more = { ...more, ...records(body) }
      else if (type === 'L') more = { ...more, path: textAt(body, 0, body.length) }
      else if (type === 'K') more = { ...more, linkpath: textAt(body, 0, body.length) }
      continue
    }
    const entry: Entry = {
      name: more['path'] ?? (prefix === '' ? name : `${prefix}/${name}`),
      link: more['linkpath'] ?? textAt(b, 157, 100),
      type,
      size: more['size'] === undefined ? size : Number(more['size']),
      mode: numberAt(b, 100, 8) & 0o777,
      mtime: more['mtime'] === undefined ? numberAt(b, 136, 12) : Number(more['mtime']),
    }
    if (!Number.isSafeInteger(entry.size) || entry.size < 0) throw broken('a size in it is none')
    more = {}
    yield entry
  }
}

function records(body: Buffer): Record<string, string> {
  const all: Record<string, string> = {}
  for (let at = 0; at < body.length; ) {
    const blank = body.indexOf(' ', at)
    const length = Number(body.toString('latin1', at, Math.max(blank, at)))
    const end = at + length
    if (blank < 0 || !Number.isInteger(length) || length < 5 || end > body.length) throw broken('a header cannot be read')
    const text = body.toString('utf8', blank + 1, end - 1)
    const equals = text.indexOf('=')
    if (equals < 0) throw broken('a header cannot be read')
    all[text.slice(0, equals)] = text.slice(equals + 1)
    at = end
  }
  return all
}

/** The parts of a name that stays in the folder, or why it does not. */
function partsOf(name: string): string[] | string {
  if (name.includes('\0')) return 'its name holds a zero'
  if (name.startsWith('/') || (path.sep === '\\' && /[\\:]/.test(name))) return 'its name leads out'
  const parts = name.split('/').filter((one) => one !== '' && one !== '.')
  return parts.includes('..') ? 'its name leads out' : parts
}

/**
 * Reports whether a link leads to something in the folder. Only at its beginning it
 * may go up: behind another link that could lead out.
 */
function stays(depth: number, target: string): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0') || (path.sep === '\\' && /[\\:]/.test(target))) return false
  const parts = target.split('/').filter((one) => one !== '' && one !== '.')
  let up = 0
  while (parts[up] === '..') up++
  return up <= depth && !parts.slice(up).includes('..')
}

/** Makes what an archive holds in a local folder, and nothing outside of it. @internal */
export async function unpack(tar: AsyncIterable<Uint8Array>, folder: string): Promise<Copied> {
  const left: Schemas['LeftOut'][] = []
  const done = { files: 0, folders: 0, links: 0, bytes: 0, left }
  const from = new Reader(tar)
  try {
    await mkdir(folder, { recursive: true })
    const root = await realpath(folder)
    for await (const entry of entries(from)) {
      const leave = async (reason: string): Promise<void> => {
        left.push({ path: entry.name, reason })
        await from.skip(entry.size + padding(entry.size).length)
      }
      const parts = partsOf(entry.name)
      if (typeof parts === 'string') {
        await leave(parts)
        continue
      }
      const last = parts.pop()
      if (last === undefined) {
        if (entry.type === '5') continue // the folder itself
        await leave('it has no name')
        continue
      }
      const parent = await folders(root, parts)
      if (parent === undefined) {
        await leave('a link or a file is in its way')
        continue
      }
      const local = path.join(parent, last)
      const there = await lstat(local).catch(() => undefined)
      if (entry.type === '5') {
        if (there?.isDirectory() !== true) {
          if (there !== undefined) {
            await leave('something that is no folder is in its way')
            continue
          }
          await mkdir(local, { mode: entry.mode | 0o700 })
        }
        done.folders++
      } else if (there?.isDirectory() === true) await leave('a folder is in its way')
      else if (entry.type === '2') {
        if (!stays(parts.length, entry.link)) {
          await leave('it is a link that leads out')
          continue
        }
        if (there !== undefined) await unlink(local)
        await symlink(entry.link, local)
        done.links++
      } else if (entry.type === '0' || entry.type === '7') {
        await write(from, entry, parent, local)
        done.files++
        done.bytes += entry.size
      } else await leave('it is no file, folder or link')
    }
  } finally {
    await from.close()
  }
  return done
}

/** The local folder of these names, which is made; undefined where it is none. */
async function folders(root: string, parts: readonly string[]): Promise<string | undefined> {
  let at = root
  for (const name of parts) {
    at = path.join(at, name)
    const there = await lstat(at).catch(() => undefined)
    if (there === undefined) await mkdir(at)
    else if (!there.isDirectory()) return undefined
  }
  return at
}

/** Writes a file beside its place and puts it there, so that a link there is replaced. */
async function write(from: Reader, entry: Entry, parent: string, local: string): Promise<void> {
  const beside = path.join(parent, `.${randomBytes(8).toString('hex')}`)
  const file = await open(beside, 'wx', entry.mode | 0o600)
  try {
    try {
      for (let rest = entry.size; rest > 0; ) {
        const piece = await from.some(Math.min(rest, 64 << 10))
        if (piece.length === 0) throw broken('it ends too early')
        for (let at = 0; at < piece.length; ) at += (await file.write(piece, at)).bytesWritten
        rest -= piece.length
      }
      await from.skip(padding(entry.size).length)
      await file.chmod(entry.mode | 0o600)
    } finally {
      await file.close()
    }
    if (Number.isFinite(entry.mtime)) await utimes(beside, entry.mtime, entry.mtime)
    await rename(beside, local)
  } catch (error) {
    await rm(beside, { force: true })
    throw error
  }
}
