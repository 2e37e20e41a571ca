import { one, type Api, type Schemas } from './api.js'
import { unbase } from './result.js'
import type { CallOptions } from './transport.js'

export type BrowserInfo = Schemas['Browser']

/** What an action of the browser comes to. */
export type BrowserAnswer = Schemas['BrowserAnswer']

/** An answer with a picture or a document. */
export interface BrowserData extends BrowserAnswer {
  bytes: Uint8Array
}

type Drive = Schemas['DriveBrowser']

/** Seconds that an action may take. */
export interface ActionOptions extends CallOptions {
  timeout?: number | undefined
}

/** The browser of the session, and the page that it keeps from call to call. */
export class Browser {
  readonly #api: Api
  readonly #name: string

  /** @internal */
  constructor(api: Api, name: string) {
    this.#api = api
    this.#name = name
  }

  /** Starts the browser; cdp and watch return addresses for DevTools and for people. */
  async start(options: CallOptions & { cdp?: boolean | undefined; watch?: boolean | undefined } = {}): Promise<BrowserInfo> {
    const json: Schemas['StartBrowser'] = {}
    if (options.cdp !== undefined) json.cdp = options.cdp
    if (options.watch !== undefined) json.watch = options.watch
    return this.#api.call({ op: 'start browser', method: 'POST', path: one(this.#name, '/browser'), json, signal: options.signal })
  }

  /** Removes the browser with all profiles in it; with force also while it is in use. */
  async stop(options: CallOptions & { force?: boolean | undefined } = {}): Promise<void> {
    const query = { force: options.force === true ? true : undefined }
    await this.#api.call({ op: 'stop browser', method: 'DELETE', path: one(this.#name, '/browser'), query, signal: options.signal })
  }

  async list(options: CallOptions = {}): Promise<readonly BrowserInfo[]> {
    const request = { op: 'list browsers', method: 'GET', path: one(this.#name, '/browser'), again: true, signal: options.signal } as const
    return (await this.#api.call<Schemas['BrowserList']>(request)).items
  }

  async #act(action: string, json: Drive, options: ActionOptions): Promise<BrowserAnswer> {
    if (options.timeout !== undefined) json.timeoutSeconds = options.timeout
    return this.#api.call({ op: action, method: 'POST', path: one(this.#name, `/browser/${action}`), json, signal: options.signal })
  }

  async #data(action: string, json: Drive, options: ActionOptions): Promise<BrowserData> {
    const answer = await this.#act(action, json, options)
    return { ...answer, bytes: unbase(answer.data ?? '') }
  }

  async navigate(url: string, options: ActionOptions = {}): Promise<BrowserAnswer> {
    return this.#act('navigate', { url }, options)
  }

  /** Takes a picture, of what a selector means, of the whole page with full; a JPEG of the quality jpeg. */
  async screenshot(options: ActionOptions & Pick<Drive, 'selector' | 'full' | 'jpeg' | 'width' | 'height'> = {}): Promise<BrowserData> {
    return this.#data('screenshot', picked(options, 'selector', 'full', 'jpeg', 'width', 'height'), options)
  }

  /** Reads the page: text, links, tree. */
  async extract(options: ActionOptions & Pick<Drive, 'selector' | 'parts' | 'maxText' | 'maxLinks' | 'maxNodes'> = {}): Promise<BrowserAnswer> {
    return this.#act('extract', picked(options, 'selector', 'parts', 'maxText', 'maxLinks', 'maxNodes'), options)
  }

  async pdf(options: ActionOptions = {}): Promise<BrowserData> {
    return this.#data('pdf', {}, options)
  }

  /** Waits until what the selector means is there, or with gone until it is not. */
  async wait(selector: string, options: ActionOptions & Pick<Drive, 'gone'> = {}): Promise<BrowserAnswer> {
    return this.#act('wait', { selector, ...picked(options, 'gone') }, options)
  }

  async click(selector: string, options: ActionOptions = {}): Promise<BrowserAnswer> {
    return this.#act('click', { selector }, options)
  }

  async type(selector: string, text: string, options: ActionOptions = {}): Promise<BrowserAnswer> {
    return this.#act('type', { selector, text }, options)
  }

  /** Gives files of the workspace to an input of the page. */
  async upload(selector: string, files: readonly string[], options: ActionOptions = {}): Promise<BrowserAnswer> {
    return this.#act('upload', { selector, files: [...files] }, options)
  }

  /** Downloads a URL, or what a click on the selector downloads, into the workspace. */
  async download(options: ActionOptions & Pick<Drive, 'url' | 'selector' | 'path'> = {}): Promise<BrowserAnswer> {
    return this.#act('download', picked(options, 'url', 'selector', 'path'), options)
  }

  /** Closes the page. */
  async close(options: ActionOptions = {}): Promise<BrowserAnswer> {
    return this.#act('close', {}, options)
  }
}

/** The members of these names that are there. */
function picked(from: Drive, ...names: (keyof Drive)[]): Drive {
  return Object.fromEntries(names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]])) as Drive
}
