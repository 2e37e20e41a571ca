declare module '*.css';

declare module '@novnc/novnc' {
  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, channel: object, options: { credentials: { password: string }; shared: boolean });
    viewOnly: boolean;
    scaleViewport: boolean;
    background: string;
  }
}
