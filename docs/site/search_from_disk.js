// Search in a site that is opened from disk: a page of file:// may start no worker, so the worker's script runs in a
// hidden frame of the page instead, and messages go to and fro as events.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inner = frame.contentWindow
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = inner.document.createElement("script")
      script.src = new URL(url, location).href
      script.onload = () => {
        this.inner = inner
        this.waiting.forEach(data => this.postMessage(data))
      }
      inner.document.head.append(script)
    }

    postMessage(data) {
      if (this.inner) this.inner.dispatchEvent(new MessageEvent("message", { data }))
      else this.waiting.push(data)
    }
  }
}
