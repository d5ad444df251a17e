/* Options such as --data are searched as words: the search reads a leading minus as "without", and refuses two. */
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (typeof message?.data === "string") message = { ...message, data: message.data.replace(/(^|\s)--+/g, "$1") };
  return post.call(this, message, ...rest);
};
